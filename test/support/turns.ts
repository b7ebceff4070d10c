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

/** What running turns have reserved of the organization's budget, and of what its instances may spend. */
export async function reserved(app: TestApp, orgId: number): Promise<{ tokens: number; micros: number; ofInstances: number }> {
  const { db } = app.context.database;
  const row = await db.selectFrom('budgets').selectAll().where('org_id', '=', orgId).executeTakeFirstOrThrow();
  const instances = await db.selectFrom('instance_spend').select('reserved_micros').where('org_id', '=', orgId).execute();
  const ofInstances = instances.reduce((sum, instance) => sum + instance.reserved_micros, 0);
  return { tokens: row.reserved_tokens, micros: row.reserved_micros, ofInstances };
}

export const nothingReserved = { tokens: 0, micros: 0, ofInstances: 0 };
