// What a test cannot see on the wire: who waits, and what is reserved.
import type { TestApp } from './app.ts';
import { until } from './until.ts';

/** Resolves once this many messages of the session have been accepted, run or not. */
export async function untilAccepted(app: TestApp, sessionId: string, count: number): Promise<void> {
  await until(async () => {
    const rows = await app.context.database.db.selectFrom('turns').select('id').where('session_id', '=', sessionId).execute();
    return rows.length >= count;
  });
}

/** What running turns of the org hold of its budget. */
export async function reserved(app: TestApp, orgId: number): Promise<{ tokens: number; micros: number }> {
  const row = await app.context.database.db.selectFrom('budgets').selectAll().where('org_id', '=', orgId).executeTakeFirstOrThrow();
  return { tokens: row.reserved_tokens, micros: row.reserved_micros };
}
