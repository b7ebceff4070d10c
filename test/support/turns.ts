// What a test cannot see on the wire: who waits, and what is reserved.
import { setTimeout as sleep } from 'node:timers/promises';
import type { TestApp } from './app.ts';

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

/** For what announces itself nowhere. Fails after 10 s. */
export async function until(isSo: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + 10_000;
  while (!(await isSo())) {
    if (Date.now() > end) throw new Error('it did not come to be within 10 s');
    await sleep(5);
  }
}
