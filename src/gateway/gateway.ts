import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import type { Agent } from '../accounts/agents.ts';
import type { Directory } from '../accounts/directory.ts';
import type { Clock } from '../clock.ts';
import type { Database } from '../database/database.ts';
import { keyReused, notFound, orNotFound, ServiceError } from '../errors.ts';
import { newId } from '../ids.ts';
import type { Logger } from '../logger.ts';
import type { Destination } from '../outbox/destinations.ts';
import { queueForGateways } from '../outbox/gateway-deliveries.ts';
import type { SessionLog } from '../session/log.ts';
import type { NewSessions } from '../session/new-sessions.ts';
import { dropSession, findSession, type Session } from '../session/sessions.ts';
import { checkBudgetOfNew } from '../turn/budget.ts';
import { instanceOf, openSession } from '../turn/open-session.ts';
import type { Settings } from '../turn/settings.ts';
import type { Turns } from '../turn/turns.ts';
import type { WatchableTurn } from '../turn/watch.ts';
import { type GatewayEvent, gatewayUrl, maxHops } from './event.ts';
import { assertRoomFor, isKnownParticipant, joinSession, newestSessionWith, senderOf } from './participants.ts';
import { type GatewayIdentity, markAdmitted, turnKeyOf } from './replies.ts';
import { ReplyWorker } from './reply-worker.ts';
import { finishEvent, forgetEvent, recordEvent } from './seen.ts';

export interface GatewayParts {
  database: Database;
  directory: Directory;
  newSessions: NewSessions;
  settings: Settings;
  log: SessionLog;
  turns: Turns;
  destination: Destination;
  clock: Clock;
  logger: Logger;
  identity: GatewayIdentity;
}

export interface Delivery {
  recipientId: string;
  event: GatewayEvent;
  sessionId: string | undefined;
  recipientGatewayUrl: string | undefined;
}

/**
 * Brings events between human and AI participants. A submitted message runs a turn of its session's agent; a delivered
 * one only informs, so that no two gateways can keep each other talking.
 */
export class Gateway {
  private readonly parts: GatewayParts;
  readonly replies: ReplyWorker;

  constructor(parts: GatewayParts) {
    this.parts = parts;
    this.replies = new ReplyWorker(parts);
  }

  /** Takes an event for a session, or for a new one of `agent`. The id of the session it went to; undefined if it was here before. */
  async submit(orgId: number, event: GatewayEvent, agent: () => Promise<Agent>): Promise<string | undefined> {
    const { database, turns, clock, identity } = this.parts;
    const { db } = database;
    if (event.hops.includes(identity.name)) return undefined;
    await this.checkSender(event);
    const target = 'submit';
    if (event.session_id !== undefined) await this.sessionOf(orgId, event.session_id);
    const seen = await recordEvent(db, orgId, event, target, event.session_id ?? newId('ses_'));
    if (!seen.isNew && isKeyed(event) && JSON.stringify(seen.event) !== JSON.stringify(event)) throw keyReused();
    const sessionId = seen.sessionId ?? '';
    if (seen.state !== 'received') return sessionId;
    let opened = false;
    let turn: WatchableTurn | undefined;
    try {
      let session = await findSession(db, orgId, sessionId);
      if (session === undefined) {
        session = await this.open(await agent(), event, sessionId);
        opened = true;
      }
      assertRoomFor(session.participants, event.sender_id);
      if (event.message === undefined) {
        await joinSession(db, sessionId, senderOf(event, identity.url));
        await finishEvent(db, orgId, event.id, target);
        return sessionId;
      }
      const key = turnKeyOf(event.id);
      turn = await turns.admit(orgId, sessionId, {
        message: { text: event.message, participantName: event.sender_id, participantType: event.sender_type },
        shows: 'nothing',
        waitsForApproval: true,
        idempotency: { key, fingerprint: key },
      });
      await markAdmitted(db, orgId, event, sessionId, turn.turnId, identity, clock.now());
      void this.replies.lookWhenEnded(turn);
    } catch (error) {
      turn?.subscription.close();
      if (seen.isNew && error instanceof ServiceError) {
        // Refused: the sender may try again, and finds nothing of this try.
        await forgetEvent(db, orgId, event.id, target);
        if (opened) await dropSession(db, orgId, sessionId);
      }
      throw error;
    }
    return sessionId;
  }

  /** Brings an event to a participant: into the log of a session here, or on to the gateway where it is. */
  async deliver(orgId: number, { recipientId, event, sessionId, recipientGatewayUrl }: Delivery): Promise<void> {
    const { database, directory, identity } = this.parts;
    const { db } = database;
    if (event.hops.includes(identity.name)) return;
    await this.checkSender(event);
    const elsewhere = recipientGatewayUrl === undefined ? undefined : gatewayUrl(recipientGatewayUrl);
    if (elsewhere !== undefined && elsewhere !== identity.url) return this.forward(orgId, recipientId, event, sessionId, elsewhere);
    const targetId = sessionId ?? (await newestSessionWith(db, directory, orgId, recipientId));
    const session = await this.sessionOf(orgId, orNotFound(targetId));
    const isKnown = sessionId === undefined || (await isKnownParticipant(db, directory, orgId, recipientId));
    if (!isKnown) throw notFound();
    await this.note(orgId, session, event);
  }

  private async forward(
    orgId: number,
    recipientId: string,
    event: GatewayEvent,
    sessionId: string | undefined,
    url: string,
  ): Promise<void> {
    const { database, destination, clock, identity } = this.parts;
    if (event.hops.length >= maxHops) return;
    await destination.check(url);
    const target = `gateway ${url} ${recipientId}`;
    await database.db.transaction().execute(async (transaction) => {
      const seen = await recordEvent(transaction, orgId, event, target, undefined);
      if (!seen.isNew) return;
      const body = {
        recipient_id: recipientId,
        event: { ...event, hops: [...event.hops, identity.name] },
        ...(sessionId === undefined ? {} : { session_id: sessionId }),
      };
      await queueForGateways(transaction, orgId, [{ gatewayUrl: url, type: event.event_type, body }], clock.now());
      await finishEvent(transaction, orgId, event.id, target);
    });
  }

  /** Once for each session, whoever of it the event is for. */
  private async note(orgId: number, session: Session, event: GatewayEvent): Promise<void> {
    const { database, turns } = this.parts;
    const { db } = database;
    const target = `session ${session.id}`;
    assertRoomFor(session.participants, event.sender_id);
    const seen = await recordEvent(db, orgId, event, target, session.id);
    if (seen.state === 'done') return;
    // Another request is at it, or died at it: only time tells.
    if (!seen.isNew && !seen.isStale)
      throw new ServiceError('unavailable', 'This event is already being delivered.', { retryAfterSeconds: 1 });
    await joinSession(db, session.id, senderOf(event, this.parts.identity.url, event.session_id));
    const messageId = `msg_${createHash('sha256').update(`${orgId} ${event.id}`).digest('hex').slice(0, 26)}`;
    if (event.message !== undefined && (seen.isNew || !(await isInLog(database, session.id, messageId)))) {
      const { message: text, sender_id: participantName, sender_type: participantType } = event;
      await turns.note(orgId, session.id, [
        { type: 'message-received', data: { messageId, text, participantName, participantType, silent: true } },
      ]);
    }
    await finishEvent(db, orgId, event.id, target);
  }

  /** The session of the org, or the one 404. A deleted agent takes its sessions with it. */
  private async sessionOf(orgId: number, sessionId: string): Promise<Session> {
    const session = orNotFound(await findSession(this.parts.database.db, orgId, sessionId));
    orNotFound(await this.parts.directory.agentById(orgId, session.agentId));
    return session;
  }

  private async open(agent: Agent, event: GatewayEvent, sessionId: string): Promise<Session> {
    const { database, directory, turns } = this.parts;
    const { metadata = {} } = event;
    const wanted = { surface: 'gateway' as const, sessionId, metadata, agentInstanceId: instanceOf(metadata), sameAgent: false };
    if (event.message !== undefined) {
      await checkBudgetOfNew(database.db, directory, agent, wanted);
      turns.assertRoom();
    }
    return openSession(this.parts, agent, wanted);
  }

  private async checkSender(event: GatewayEvent): Promise<void> {
    const url = event.sender_gateway_url;
    if (url !== undefined && gatewayUrl(url) !== this.parts.identity.url) await this.parts.destination.check(url);
  }
}

/** Its id was made of an Idempotency-Key: then another body under the same key is a mistake, not a repetition. */
function isKeyed(event: GatewayEvent): boolean {
  return event.id.startsWith('idem_');
}

async function isInLog(database: Database, sessionId: string, messageId: string): Promise<boolean> {
  const { rows } = await sql`select 1 from events
    where session_id = ${sessionId} and type = 'message-received' and data ->> 'messageId' = ${messageId}`.execute(database.db);
  return rows.length > 0;
}
