import { sql } from 'kysely';
import type { Db } from '../database/database.ts';
import { instanceKey } from '../instances/instance-key.ts';
import { dropFilesOf, ofInstance } from '../instances/workspace.ts';
import type { Feed } from './feed.ts';
import type { Participant } from './participants.ts';

/**
 * Deletes a conversation with everything that belongs to it, for clients that asked that it not be stored. False when one of its turns
 * is active, since that one holds a reservation of the budget until its end; or when its log goes on after `lastSeq` with a turn whose
 * answer may still be read. Its turns and approvals are found through its log, since no index by session has all of them.
 */
export async function dropSession(db: Db, orgId: number, sessionId: string, lastSeq?: number): Promise<boolean> {
  return db.transaction().execute((transaction) => dropSessionIn(transaction, orgId, sessionId, lastSeq));
}

/**
 * The same as part of a transaction. All conditions are about the session's own row: if the deletion has to wait for a turn that is being
 * admitted, the database checks them again, which it would not do for other tables.
 */
export async function dropSessionIn(transaction: Db, orgId: number, sessionId: string, lastSeq?: number): Promise<boolean> {
  const { rows } = await sql<{ agent_id: number; participants: Participant[] }>`
    delete from sessions where id = ${sessionId} and org_id = ${orgId} and active_turn_id is null
      and coalesce(last_seq <= ${lastSeq ?? null}::integer, true)
    returning agent_id, participants`.execute(transaction);
  const gone = rows[0];
  if (gone === undefined) return false;
  await sql`delete from turns where id in
    (select turn_id from events where session_id = ${sessionId} and type = 'turn-started')`.execute(transaction);
  await sql`delete from approvals where request_id in
    (select data ->> 'requestId' from events where session_id = ${sessionId} and type = 'approval-requested')`.execute(transaction);
  await transaction.deleteFrom('events').where('session_id', '=', sessionId).execute();
  await transaction.deleteFrom('deleted_responses').where('session_id', '=', sessionId).execute();
  if (gone.participants.length > 0) await transaction.deleteFrom('session_participants').where('session_id', '=', sessionId).execute();
  // If the instance is the session itself, its files and its spending go too.
  const own = { orgId, agentId: gone.agent_id, instanceKey: instanceKey('session', { sessionId, endUserId: undefined }) };
  await dropFilesOf(transaction, own);
  await sql`delete from instance_spend where ${ofInstance(own)}`.execute(transaction);
  await transaction
    .updateTable('agents')
    .set(({ eb }) => ({ session_count: eb('session_count', '-', 1) }))
    .where('id', '=', gone.agent_id)
    .execute();
  return true;
}

/** Deletes sessions that were not to be stored and were left behind because their process died or could not delete them in time. */
export async function dropLeftovers(db: Db, feed: Feed, signal?: AbortSignal): Promise<void> {
  const rows = await db
    .selectFrom('sessions')
    .select(['id', 'org_id', 'last_seq'])
    .where('stored', '=', false)
    .where('active_turn_id', 'is', null)
    .where('updated_at', '<', sql<Date>`now() - interval '1 minute'`)
    .execute();
  const drop = (row: (typeof rows)[number]) => dropSession(db, row.org_id, row.id, row.last_seq);
  await dropEach(rows, feed, drop, signal);
}

/** After this many failures in a row, it is not the sessions that are at fault. */
const mostFailures = 20;

/** Drops each, and tells who follows it. One that fails keeps no other from being dropped; that it failed is thrown at the end. */
export async function dropEach<Row extends { id: string }>(
  rows: readonly Row[],
  feed: Feed,
  drop: (row: Row) => Promise<boolean>,
  signal?: AbortSignal,
): Promise<void> {
  const failed: unknown[] = [];
  let inARow = 0;
  for (const row of rows) {
    if (signal?.aborted) break;
    try {
      if (await drop(row)) feed.drop(row.id);
      inARow = 0;
    } catch (error) {
      failed.push(error);
      inARow += 1;
      if (inARow === mostFailures) break;
    }
  }
  if (failed.length > 0) throw new Error(`${failed.length} of ${rows.length} sessions could not be dropped`, { cause: failed[0] });
}
