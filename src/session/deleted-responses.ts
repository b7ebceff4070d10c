import { sql } from 'kysely';
import type { Db } from '../database/database.ts';

/**
 * Makes a response not found from now on. True when its session came with its responses, holds no other, and none that
 * runs: then it can go too. A turn has one response more than approvals that were answered in it.
 */
export async function deleteResponse(db: Db, orgId: number, sessionId: string, turnId: string, responseId: string): Promise<boolean> {
  return db.transaction().execute(async (transaction) => {
    await transaction
      .insertInto('deleted_responses')
      .values({ id: responseId, org_id: orgId, session_id: sessionId, turn_id: turnId })
      .onConflict((conflict) => conflict.column('id').doNothing())
      .execute();
    const { rows } = await sql<{ kept: boolean }>`
      select exists (select 1 from sessions where id = ${sessionId} and surface <> 'responses')
        or exists (select 1 from turns where session_id = ${sessionId} and state <> 'ended')
        or (select count(*) from deleted_responses where session_id = ${sessionId})
          < (select count(*) from turns where session_id = ${sessionId})
            + (select count(*) from events where session_id = ${sessionId} and type = 'approval-resolved') as kept`.execute(transaction);
    return rows[0]?.kept === false;
  });
}
