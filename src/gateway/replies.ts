import { sql } from 'kysely';
import type { Db } from '../database/database.ts';
import { type GatewayEvent, maxMessageCharacters, senderGateway } from './event.ts';
import { joinSession, senderOf } from './participants.ts';
import { submitTarget } from './seen.ts';
import { tellOthers } from './tell-others.ts';

export interface GatewayIdentity {
  /** What a list of hops calls this gateway. */
  name: string;
  /** Where others reach it, when that is configured. */
  url: string | undefined;
}

/** A submitted event that something is still to be done for. */
export interface OpenEvent {
  org_id: number;
  event_id: string;
  session_id: string;
  turn_id: string;
  event: GatewayEvent;
}

/** By characters, not by their units: none is cut in two. */
const piece = new RegExp(`[^]{1,${maxMessageCharacters}}`, 'gu');

/** The key under which a submitted event's turn is admitted: the same event never runs two. */
export function turnKeyOf(eventId: string): string {
  return `gateway ${eventId}`;
}

/** The message has its turn: its sender takes part, the others hear it, and the reply is owed to them. Written together, once. */
export async function markAdmitted(db: Db, admitted: OpenEvent, own: GatewayIdentity, now: Date): Promise<void> {
  const { event, session_id: sessionId } = admitted;
  await db.transaction().execute(async (transaction) => {
    const { rows } = await sql`update gateway_events set state = 'admitted', turn_id = ${admitted.turn_id}
      where org_id = ${admitted.org_id} and event_id = ${event.id} and target = ${submitTarget} and state = 'received' returning event_id`.execute(
      transaction,
    );
    if (rows.length === 0) return;
    await joinSession(transaction, sessionId, senderOf(event, own.url));
    // A session belongs to the gateway that its sender is reached at: ours goes along, with our URL, only with those who are here.
    const { session_id: _named, ...rest } = event;
    const isHere = senderGateway(event, own.url) === undefined;
    const forwarded = { ...rest, ...(isHere ? reachedHere(sessionId, own) : {}), hops: [...event.hops, own.name] };
    await tellOthers(transaction, admitted, [forwarded], now);
  });
}

/** Events whose process died between admitting the turn and saying so. */
export async function findUnmarked(db: Db): Promise<OpenEvent[]> {
  const { rows } = await sql<OpenEvent>`
    select g.org_id, g.event_id, g.session_id, k.turn_id, g.event from gateway_events g
    join idempotency_keys k on k.org_id = g.org_id and k.key = 'gateway ' || g.event_id and k.turn_id is not null
    where g.state = 'received' and g.target = ${submitTarget} and g.created_at < now() - interval '10 seconds' limit 50`.execute(db);
  return rows;
}

/** Events whose turn has ended, and whose reply is owed. */
export async function findAnswered(db: Db): Promise<OpenEvent[]> {
  const { rows } = await sql<OpenEvent>`
    select g.org_id, g.event_id, g.session_id, g.turn_id, g.event from gateway_events g
    where g.state = 'admitted' and not exists (select 1 from turns t where t.id = g.turn_id and t.state <> 'ended')
    order by g.created_at limit 50`.execute(db);
  return rows;
}

/** Delivers the reply to an event. Of two processes that have found the event, one does. */
export async function deliverReply(db: Db, event: OpenEvent, own: GatewayIdentity, now: Date): Promise<void> {
  await db.transaction().execute(async (transaction) => {
    const { rows } = await sql`update gateway_events set state = 'done'
      where org_id = ${event.org_id} and event_id = ${event.event_id} and target = ${submitTarget} and state = 'admitted' returning event_id`.execute(
      transaction,
    );
    if (rows.length === 0) return;
    await tellOthers(transaction, event, await repliesOf(transaction, event, own), now);
  });
}

/** What the agent said in the turn, as events of its own: one, unless it said more than fits, or nothing. */
async function repliesOf(transaction: Db, row: OpenEvent, own: GatewayIdentity): Promise<GatewayEvent[]> {
  const { rows } = await sql<{ slug: string; text: string | null }>`
    select a.slug, string_agg(e.data ->> 'text', '' order by e.seq) as text
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
    ...reachedHere(row.session_id, own),
    hops: [own.name],
  }));
}

/** How another gateway answers someone who is here. */
function reachedHere(sessionId: string, own: GatewayIdentity): Pick<GatewayEvent, 'session_id' | 'sender_gateway_url'> {
  return { session_id: sessionId, ...(own.url === undefined ? {} : { sender_gateway_url: own.url }) };
}
