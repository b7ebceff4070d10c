import { sql } from 'kysely';
import type { Db } from '../database/database.ts';

/** Makes a response not found from now on. True when its session holds no other turn, and none that runs: then it can go too. */
export async function deleteResponse(db: Db, orgId: number, sessionId: string, turnId: string, responseId: string): Promise<boolean> {
  return db.transaction().execute(async (transaction) => {
    await transaction
      .insertInto('deleted_responses')
      .values({ id: responseId, org_id: orgId, session_id: sessionId, turn_id: turnId })
      .onConflict((conflict) => conflict.column('id').doNothing())
      .execute();
    const { rows } = await sql<{ kept: boolean }>`
      select exists (
        select 1 from turns t where t.session_id = ${sessionId} and (t.state <> 'ended'
          or not exists (select 1 from deleted_responses d where d.session_id = ${sessionId} and d.turn_id = t.id))
      ) as kept`.execute(transaction);
    return rows[0]?.kept === false;
  });
}
