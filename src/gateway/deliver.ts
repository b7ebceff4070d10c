import { hash } from 'node:crypto';
import { sql } from 'kysely';
import type { Directory } from '../accounts/directory.ts';
import type { Clock } from '../clock.ts';
import type { Database, Db } from '../database/database.ts';
import type { Guard } from '../destination/guard.ts';
import { notFound, orNotFound, ServiceError } from '../errors.ts';
import { idOf } from '../ids.ts';
import { queueForGateways } from '../outbox/gateway-deliveries.ts';
import type { NewEvent } from '../session/events.ts';
import { assertRoomFor } from '../session/participants.ts';
import type { Session } from '../session/sessions.ts';
import type { Turns } from '../turn/turns.ts';
import { type GatewayEvent, gatewayUrl, maxHops } from './event.ts';
import { checkGateway, isKnownParticipant, joinSender, newestSessionWith, sessionOf } from './participants.ts';
import type { GatewayIdentity } from './replies.ts';
import { finishEvent, forgetEvent, recordEvent, sessionTarget } from './seen.ts';

interface DeliveryParts {
  database: Database;
  directory: Directory;
  turns: Turns;
  destination: Guard;
  clock: Clock;
  identity: GatewayIdentity;
}

export interface Delivery {
  recipientId: string;
  event: GatewayEvent;
  sessionId: string | undefined;
  recipientGatewayUrl: string | undefined;
}

/** Adds the event to the log of a session here, or passes it on to the recipient's gateway. */
export async function deliverEvent(parts: DeliveryParts, orgId: number, delivery: Delivery): Promise<void> {
  const { directory, identity } = parts;
  const { db } = parts.database;
  const { recipientId, event, sessionId, recipientGatewayUrl } = delivery;
  const elsewhere = recipientGatewayUrl === undefined ? undefined : gatewayUrl(recipientGatewayUrl);
  if (elsewhere !== undefined && elsewhere !== identity.url) return forward(parts, orgId, delivery, elsewhere);
  const targetId = sessionId ?? (await newestSessionWith(db, directory, orgId, recipientId, event.id));
  const session = await sessionOf(db, directory, orgId, orNotFound(targetId));
  const isPartOfIt = sessionId === undefined || session.participants.some(({ name }) => name === recipientId);
  const isKnown = isPartOfIt || (await isKnownParticipant(db, directory, orgId, recipientId));
  if (!isKnown) throw notFound();
  await addToSession(parts, orgId, session, event);
}

async function forward(parts: DeliveryParts, orgId: number, { recipientId, event, sessionId }: Delivery, url: string): Promise<void> {
  const { database, destination, clock, identity } = parts;
  if (event.hops.length >= maxHops) return;
  await checkGateway(url, 'recipient_gateway_url', destination);
  // Hashed, because the target is part of an index, and an index row has a small maximum size.
  const target = `gateway ${hash('sha256', `${url} ${recipientId}`)}`;
  // That it names no gateway means this one here, and would mean the other one there. What came from a gateway without a URL stays so.
  const isFromHere = event.sender_gateway_url === undefined && event.hops.length === 0 && identity.url !== undefined;
  await database.db.transaction().execute(async (transaction) => {
    const seen = await recordEvent(transaction, orgId, event, target, undefined);
    if (!seen.isNew) return;
    const body = {
      recipient_id: recipientId,
      event: { ...event, ...(isFromHere ? { sender_gateway_url: identity.url } : {}), hops: [...event.hops, identity.name] },
      ...(sessionId === undefined ? {} : { session_id: sessionId }),
    };
    await queueForGateways(transaction, orgId, [{ gatewayUrl: url, type: event.event_type, body }], clock.now());
    await finishEvent(transaction, orgId, event.id, target);
  });
}

/** An event is added to a session once, even if it is delivered to several of its participants. */
async function addToSession(
  { database, turns, identity }: DeliveryParts,
  orgId: number,
  session: Session,
  event: GatewayEvent,
): Promise<void> {
  const { db } = database;
  const target = sessionTarget(session.id);
  assertRoomFor(session.participants, event.sender_id);
  const seen = await recordEvent(db, orgId, event, target, session.id);
  if (seen.state === 'done') return;
  // Another request is adding it right now, or its process died while doing so: we know only once the record is stale.
  if (!seen.isNew && !seen.isStale)
    throw new ServiceError('unavailable', 'This event is already being delivered.', { retryAfterSeconds: 1 });
  const messageId = idOf('msg_', seen.createdAt, `${orgId} ${event.id}`);
  if (event.message !== undefined && (seen.isNew || !(await isInLog(db, session.id, messageId)))) {
    const { message: text, sender_id: participantName, sender_type: participantType } = event;
    const said: NewEvent = { type: 'message-received', data: { messageId, text, participantName, participantType, silent: true } };
    await turns.note(orgId, session.id, [said]).catch(async (error: unknown) => {
      // Refused, for example by a stopped session: the sender can try again, and may find another session.
      if (error instanceof ServiceError) await forgetEvent(db, orgId, event.id, target);
      throw error;
    });
  }
  await joinSender(db, session.id, event, identity.url, event.session_id);
  await finishEvent(db, orgId, event.id, target);
}

async function isInLog(db: Db, sessionId: string, messageId: string): Promise<boolean> {
  const { rows } = await sql`select 1 from events
    where session_id = ${sessionId} and type = 'message-received' and data ->> 'messageId' = ${messageId}`.execute(db);
  return rows.length > 0;
}
