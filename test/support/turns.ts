// Reads from the database what no API shows: which messages wait, and what is reserved of a budget.
import type { TestApp } from './app.ts';
import { until } from './until.ts';

/** Resolves once this many messages of the session have been accepted, whether or not their turns have run. */
export async function untilAccepted(app: TestApp, sessionId: string, count: number): Promise<void> {
  await until(async () => {
    const rows = await app.context.database.db.selectFrom('turns').select('id').where('session_id', '=', sessionId).execute();
    return rows.length >= count;
  });
}

/** What running turns have reserved of the organization's budget. */
export async function reserved(app: TestApp, orgId: number): Promise<{ tokens: number; micros: number }> {
  const row = await app.context.database.db.selectFrom('budgets').selectAll().where('org_id', '=', orgId).executeTakeFirstOrThrow();
  return { tokens: row.reserved_tokens, micros: row.reserved_micros };
}
