// Turns that may no longer run: their organization was suspended while they ran.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startApp } from '../../support/app.ts';
import { until } from '../../support/until.ts';

test('all turns of a suspended organization end, though the database could not be asked about them when it was suspended', {
  timeout: 20_000,
}, async (t) => {
  const app = await startApp(t, { settings: { PARLEY_LEASE_MS: '500', PARLEY_LOG_LEVEL: 'silent' } });
  const { directory, runner } = app.context;
  const ids = ['first', 'second', 'third'];
  for (const session_id of ids) await app.request('POST', '/v1/sessions', { session_id });
  const said = ids.map((id) => app.request('POST', `/v1/sessions/${id}/messages`, { text: '/delay 60000\n/words 2' }));
  await until(async () => runner.running.size === 3);
  const ask = directory.organizationById.bind(directory);
  let failures = 0;
  t.mock.method(directory, 'organizationById', async (id: number) => {
    failures += 1;
    if (failures === 1 || failures === 3) throw new Error('the database is away');
    return ask(id);
  });
  const suspended = await app.call('PATCH', '/operator/organizations/demo', { key: app.operatorKey, body: { status: 'suspended' } });
  assert.equal(suspended.status, 200);
  for (const { status, body } of await Promise.all(said)) assert.deepEqual([status, body.stop_reason], [200, 'interrupted']);
});
