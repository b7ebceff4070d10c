import { sql } from 'kysely';
import type { Db } from '../database/database.ts';
import type { MessageReceived, RequestEcho } from '../session/events.ts';
import { type Session, sessionFrom } from '../session/sessions.ts';

/** For how long after a turn began the same request counts as an automatic retry of a client library. */
export const retryWindowMs = 10 * 60_000;

/** The turn that the same client started recently with the same request, if there is one: then this request is a retry. */
export async function findTurnByFingerprint(db: Db, orgId: number, fingerprint: string): Promise<string | undefined> {
  const row = await db
    .selectFrom('turns')
    .select('id')
    .where('fingerprint', '=', fingerprint)
    .where('org_id', '=', orgId)
    .where('created_at', '>', sql<Date>`now() - ${retryWindowMs} * interval '1 millisecond'`)
    .orderBy('created_at', 'desc')
    .executeTakeFirst();
  return row?.id;
}

/** The session of a turn, and the seq that the turn's events come after. */
export async function findTurn(db: Db, turnId: string): Promise<{ sessionId: string; after: number } | undefined> {
  const row = await db
    .selectFrom('turns')
    .innerJoin('sessions', 'sessions.id', 'turns.session_id')
    .select(['turns.session_id', 'turns.first_seq', 'sessions.last_seq'])
    .where('turns.id', '=', turnId)
    .executeTakeFirst();
  return row && { sessionId: row.session_id, after: row.first_seq === null ? row.last_seq : row.first_seq - 1 };
}

/** The session of a turn, and the fields of its request that the response repeats; undefined if the response was deleted. */
export async function findTurnOfResponse(
  db: Db,
  orgId: number,
  turnId: string,
  responseId: string,
): Promise<{ session: Session; echo: RequestEcho } | undefined> {
  const row = await db
    .selectFrom('sessions')
    .innerJoin('turns', 'turns.session_id', 'sessions.id')
    .leftJoin('deleted_responses', (join) => join.on('deleted_responses.id', '=', responseId))
    .selectAll('sessions')
    .select(sql<RequestEcho | null>`turns.input -> 'echo'`.as('echo'))
    .where('turns.id', '=', turnId)
    .where('sessions.org_id', '=', orgId)
    .where('deleted_responses.id', 'is', null)
    .executeTakeFirst();
  return row === undefined ? undefined : { session: sessionFrom(row), echo: row.echo ?? {} };
}

/** The message of a turn, and its seq; null while it waits for its turn. */
export async function findTurnInput(
  db: Db,
  orgId: number,
  turnId: string,
): Promise<{ input: MessageReceived; firstSeq: number | null } | undefined> {
  const row = await db
    .selectFrom('turns')
    .select(['first_seq', sql<MessageReceived>`input`.as('input')])
    .where('id', '=', turnId)
    .where('org_id', '=', orgId)
    .executeTakeFirst();
  return row === undefined ? undefined : { input: row.input, firstSeq: row.first_seq };
}
