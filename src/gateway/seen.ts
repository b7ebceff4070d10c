import { sql } from 'kysely';
import type { Db } from '../database/database.ts';
import type { GatewayEvent } from './event.ts';

/** The record of an event: it exists once per target, so that an event that is sent again is recognized. */
export interface SeenEvent {
  isNew: boolean;
  state: 'received' | 'admitted' | 'done';
  sessionId: string | undefined;
  createdAt: Date;
  /** Recorded so long ago that the request that recorded it must have ended. */
  isStale: boolean;
}

/** The target of an event that was submitted. Other targets name the session or gateway that it is delivered to. */
export const submitTarget = 'submit';

/** The target of an event that is delivered to a session here. */
export function sessionTarget(sessionId: string): string {
  return `session ${sessionId}`;
}

const staleSeconds = 10;

/**
 * The idempotency key under which a submitted event's turn is admitted: the same event never runs two turns. A header cannot contain
 * a line break, so this equals no key that a backend sends.
 */
export function turnKeyOf(eventId: string): string {
  return `gateway\n${eventId}`;
}

/** Records an event for a target, or returns the existing record. */
export async function recordEvent(
  db: Db,
  orgId: number,
  event: GatewayEvent,
  target: string,
  sessionId: string | undefined,
): Promise<SeenEvent> {
  for (;;) {
    const { rows: added } = await sql`
      insert into gateway_events (org_id, event_id, target, session_id, event)
      values (${orgId}, ${event.id}, ${target}, ${sessionId ?? null}, ${JSON.stringify(event)}) on conflict do nothing returning event_id`.execute(
      db,
    );
    const { rows } = await sql<{ state: SeenEvent['state']; session_id: string | null; created_at: Date; stale: boolean }>`
      select state, session_id, created_at, created_at < now() - ${staleSeconds} * interval '1 second' as stale from gateway_events
      where org_id = ${orgId} and event_id = ${event.id} and target = ${target}`.execute(db);
    const [row] = rows;
    // Otherwise the request that had recorded it was refused at this moment, and has forgotten it.
    if (row !== undefined) {
      const { state, session_id: seenIn, created_at: createdAt, stale: isStale } = row;
      return { isNew: added.length > 0, state, sessionId: seenIn ?? undefined, createdAt, isStale };
    }
  }
}

export async function finishEvent(db: Db, orgId: number, eventId: string, target: string): Promise<void> {
  await sql`update gateway_events set state = 'done' where org_id = ${orgId} and event_id = ${eventId} and target = ${target}`.execute(db);
}

/** Deletes the record of an event that was refused, so that the sender can try again. Not if the same event, sent twice, has a turn. */
export async function forgetEvent(db: Db, orgId: number, eventId: string, target: string): Promise<void> {
  await sql`delete from gateway_events
    where org_id = ${orgId} and event_id = ${eventId} and target = ${target} and state = 'received'
      and not exists (select 1 from idempotency_keys where org_id = ${orgId} and key = ${turnKeyOf(eventId)})`.execute(db);
}
