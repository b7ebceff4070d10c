import { sql } from 'kysely';
import type { Db } from '../database/database.ts';

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
