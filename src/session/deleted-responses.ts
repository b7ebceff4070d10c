import { sql } from 'kysely';
import type { Db } from '../database/database.ts';
import { dropEach, dropSessionIn } from './drop-sessions.ts';
import type { Feed } from './feed.ts';

/**
 * Deletes a response. True when it was the last one of its session, which is then dropped with it. The session is locked: otherwise
 * two requests that delete its last two responses at once would each still see the other's.
 */
export async function deleteResponse(db: Db, orgId: number, sessionId: string, turnId: string, responseId: string): Promise<boolean> {
  return db.transaction().execute(async (transaction) => {
    await lockSession(transaction, sessionId);
    await sql`insert into deleted_responses (id, org_id, session_id, turn_id, while_running)
      select ${responseId}, ${orgId}, ${sessionId}, ${turnId}, active_turn_id is not null
      from sessions where id = ${sessionId} and org_id = ${orgId}
      on conflict do nothing`.execute(transaction);
    return (await isEmptied(transaction, sessionId)) && dropSessionIn(transaction, orgId, sessionId);
  });
}

/** Until the commit, no turn begins in the session and no other response of it is deleted. */
async function lockSession(transaction: Db, sessionId: string): Promise<void> {
  await sql`select 1 from sessions where id = ${sessionId} for update`.execute(transaction);
}

/** Drops sessions whose last response was deleted while a turn still ran in them. */
export async function dropEmptied(db: Db, feed: Feed, signal?: AbortSignal): Promise<void> {
  const { rows } = await sql<{ id: string; org_id: number }>`
    select id, org_id from sessions
    where id in (select session_id from deleted_responses where while_running) and active_turn_id is null`.execute(db);
  const drop = ({ id, org_id: orgId }: (typeof rows)[number]) =>
    db.transaction().execute(async (transaction) => {
      await lockSession(transaction, id);
      if (await isEmptied(transaction, id)) return dropSessionIn(transaction, orgId, id);
      await transaction.updateTable('deleted_responses').set({ while_running: false }).where('session_id', '=', id).execute();
      return false;
    });
  await dropEach(rows, feed, drop, signal);
}

/**
 * Whether the session was created by the responses API, runs no turn, and has no response left. Every start of a turn and every
 * answer to an approval made one response. All of them are counted, while the session is locked, only if those of its first and of its
 * newest turn are deleted: nearly always that tells, however long the conversation is.
 */
async function isEmptied(db: Db, sessionId: string): Promise<boolean> {
  const turnIds = sql`select turn_id from events where session_id = ${sessionId} and type = 'turn-started'`;
  const deleted = sql`select turn_id from deleted_responses where session_id = ${sessionId}`;
  const { rows } = await sql<{ emptied: boolean }>`
    select case
      when not exists (select 1 from sessions where id = ${sessionId} and surface = 'responses' and active_turn_id is null) then false
      when (${turnIds} order by seq limit 1) not in (${deleted}) then false
      when (${turnIds} order by seq desc limit 1) not in (${deleted}) then false
      else (select count(*) from deleted_responses where session_id = ${sessionId})
        >= (select count(*) from events where session_id = ${sessionId} and type in ('turn-started', 'approval-resolved'))
    end as emptied`.execute(db);
  return rows[0]?.emptied ?? false;
}
