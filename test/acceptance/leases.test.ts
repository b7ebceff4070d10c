import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startApp } from '../support/app.ts';
import { engine } from '../support/engine.ts';
import { until } from '../support/until.ts';

test('a turn whose row is locked does not keep the leases of others from being renewed', {
  skip: engine === 'pglite' && 'one connection: nobody waits for a lock',
}, async (t) => {
  const app = await startApp(t, { settings: { PARLEY_LEASE_MS: '500' } });
  const { db } = app.context.database;
  const running = ['held', 'free'].map(async (id) => {
    await app.request('POST', '/v1/sessions', { session_id: id });
    return app.request('POST', `/v1/sessions/${id}/messages`, { text: '/delay 20\n/words 100' });
  });
  const leaseOf = async (sessionId: string) => {
    const row = await db.selectFrom('turns').select('lease_until').where('session_id', '=', sessionId).executeTakeFirst();
    return row?.lease_until?.getTime() ?? 0;
  };
  await until(async () => (await leaseOf('held')) > 0 && (await leaseOf('free')) > 0);

  await db.transaction().execute(async (transaction) => {
    await transaction.selectFrom('turns').select('id').where('session_id', '=', 'held').forUpdate().execute();
    const before = { held: await leaseOf('held'), free: await leaseOf('free') };
    await until(async () => (await leaseOf('free')) > before.free);
    assert.equal(await leaseOf('held'), before.held);
  });
  for (const { status } of await Promise.all(running)) assert.equal(status, 200);
});
