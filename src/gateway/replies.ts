import { type RawBuilder, sql } from 'kysely';
import type { Db } from '../database/database.ts';
import { type GatewayDelivery, queueForGateways } from '../outbox/gateway-deliveries.ts';
import { betweenSteps } from '../session/transcript.ts';
import { type GatewayEvent, maxHops, maxMessageCharacters, senderGateway } from './event.ts';
import { joinSender } from './participants.ts';
import { submitTarget, turnKeyOf } from './seen.ts';

export interface GatewayIdentity {
  /** What this gateway adds to the hops of an event. */
  name: string;
  /** Where other gateways reach it, if that is configured. */
  url: string | undefined;
}

/** A submitted event whose reply has not been sent yet. */
export interface OpenEvent {
  org_id: number;
  event_id: string;
  session_id: string;
  turn_id: string;
  event: GatewayEvent;
}

/** The flag `u` makes it count characters instead of UTF-16 units, so that none is cut in two. */
const piece = new RegExp(`[^]{1,${maxMessageCharacters}}`, 'gu');

/**
 * Records that the turn of a submitted message was admitted. In the same transaction, and once, its sender joins the session
 * and the message is queued for the participants at other gateways. The record may have been forgotten by a copy of the event that
 * was refused before: it is made again.
 */
export async function markAdmitted(db: Db, admitted: OpenEvent, identity: GatewayIdentity, now: Date): Promise<void> {
  const { event, session_id: sessionId } = admitted;
  await db.transaction().execute(async (transaction) => {
    const { rows } = await sql`
      insert into gateway_events as known (org_id, event_id, target, session_id, turn_id, event, state)
      values (${admitted.org_id}, ${event.id}, ${submitTarget}, ${sessionId}, ${admitted.turn_id}, ${JSON.stringify(event)}, 'admitted')
      on conflict (org_id, event_id, target) do update set state = excluded.state, turn_id = excluded.turn_id
      where known.state = 'received' returning event_id`.execute(transaction);
    if (rows.length === 0) return;
    await joinSender(transaction, sessionId, event, identity.url);
    // `session_id` belongs together with `sender_gateway_url`: our session is named only if the sender is reached here.
    const { session_id: _named, ...rest } = event;
    const isHere = senderGateway(event, identity.url) === undefined;
    const forwarded = { ...rest, ...(isHere ? reachedHere(sessionId, identity) : {}), hops: [...event.hops, identity.name] };
    await tellOthers(transaction, admitted, [forwarded], event.sender_id, now);
  });
}

/** Events whose process died after it admitted the turn and before `markAdmitted`. Leaves out the first `skipped`. */
export async function findUnmarked(db: Db, skipped: number): Promise<OpenEvent[]> {
  const { rows } = await sql<OpenEvent>`
    select g.org_id, g.event_id, g.session_id, k.turn_id, g.event from gateway_events g
    join idempotency_keys k on k.org_id = g.org_id and k.key = ${turnKeyOf('')} || g.event_id and k.turn_id is not null
    where g.state = 'received' and g.target = ${submitTarget} and g.created_at < now() - interval '10 seconds'
    order by g.created_at, g.org_id, g.event_id offset ${skipped} limit 50`.execute(db);
  return rows;
}

/** Events whose turn has ended and whose reply was not sent yet. Leaves out the first `skipped`. */
export async function findAnswered(db: Db, skipped: number): Promise<OpenEvent[]> {
  return answered(db, sql`true`, skipped);
}

/** The same of one session, without reading those of others. */
export async function findAnsweredIn(db: Db, sessionId: string, skipped: number): Promise<OpenEvent[]> {
  return answered(db, sql`g.session_id = ${sessionId}`, skipped);
}

async function answered(db: Db, condition: RawBuilder<unknown>, skipped: number): Promise<OpenEvent[]> {
  const { rows } = await sql<OpenEvent>`
    select g.org_id, g.event_id, g.session_id, g.turn_id, g.event from gateway_events g
    where g.state = 'admitted' and ${condition} and not exists (select 1 from turns t where t.id = g.turn_id and t.state <> 'ended')
    order by g.created_at, g.org_id, g.event_id offset ${skipped} limit 50`.execute(db);
  return rows;
}

/** Queues the reply to an event. If two processes have found the same event, only one queues it. */
export async function deliverReply(db: Db, event: OpenEvent, identity: GatewayIdentity, now: Date): Promise<void> {
  await db.transaction().execute(async (transaction) => {
    const { rows } = await sql`update gateway_events set state = 'done'
      where org_id = ${event.org_id} and event_id = ${event.event_id} and target = ${submitTarget} and state = 'admitted' returning event_id`.execute(
      transaction,
    );
    if (rows.length === 0) return;
    await tellOthers(transaction, event, await repliesOf(transaction, event, identity), undefined, now);
  });
}

/** What the agent said in the turn: one event, several if the text is too long for one, none if it said nothing. */
async function repliesOf(transaction: Db, row: OpenEvent, identity: GatewayIdentity): Promise<GatewayEvent[]> {
  const { rows } = await sql<{ slug: string; text: string | null }>`
    select a.slug, string_agg(nullif(e.data ->> 'text', ''), ${betweenSteps} order by e.seq) as text
    from turns t join agents a on a.id = t.agent_id
    join events e on e.session_id = t.session_id and e.turn_id = t.id and e.type = 'message-produced' and e.seq between t.first_seq and t.last_seq
    where t.id = ${row.turn_id} group by a.slug`.execute(transaction);
  const [said] = rows;
  return (said?.text?.match(piece) ?? []).map((message, index) => ({
    id: `${row.turn_id}.reply${index === 0 ? '' : `.${index + 1}`}`,
    sender_id: said?.slug ?? '',
    sender_type: 'ai',
    event_type: 'message',
    message,
    ...reachedHere(row.session_id, identity),
    hops: [identity.name],
  }));
}

/** The fields of an event that tell another gateway where to answer a sender who is in a session here. */
function reachedHere(sessionId: string, identity: GatewayIdentity): Pick<GatewayEvent, 'session_id' | 'sender_gateway_url'> {
  return { session_id: sessionId, ...(identity.url === undefined ? {} : { sender_gateway_url: identity.url }) };
}

/**
 * Queues events of a session for each participant at another gateway, except the sender: undefined for the agent here, because a
 * participant with its slug is another one. Participants here read them in the session's log. An event that has passed the maximum
 * number of gateways goes no further.
 */
async function tellOthers(
  transaction: Db,
  session: { org_id: number; session_id: string },
  events: readonly GatewayEvent[],
  sender: string | undefined,
  now: Date,
): Promise<void> {
  const row = await transaction.selectFrom('sessions').select('participants').where('id', '=', session.session_id).executeTakeFirst();
  // One statement per event: a long reply to a hundred participants, in one statement, would be hundreds of megabytes.
  for (const event of events) {
    if (event.hops.length > maxHops) continue;
    const deliveries = (row?.participants ?? []).flatMap((participant): GatewayDelivery[] => {
      const { name, gateway_url: gatewayUrl, gateway_session_id: sessionId } = participant;
      if (gatewayUrl === undefined || name === sender) return [];
      const body = { recipient_id: name, event, ...(sessionId === undefined ? {} : { session_id: sessionId }) };
      return [{ gatewayUrl, type: event.event_type, body }];
    });
    await queueForGateways(transaction, session.org_id, deliveries, now);
  }
}
