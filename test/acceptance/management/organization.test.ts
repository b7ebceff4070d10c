import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import { createAgent, createKey, createOrganization, operate } from '../../support/accounts.ts';
import { startApp } from '../../support/app.ts';
import { engine } from '../../support/engine.ts';
import { until } from '../../support/until.ts';

const parley = await startApp({ after });

test('the organization: what a new one has, what can be changed, and what is refused', async () => {
  const { id, slug, key } = await createOrganization(parley);
  await createAgent(parley, key, 'desk');
  const { status, body } = await parley.call('GET', '/api/organization', { key });
  const { created_at, updated_at, ...rest } = body.organization;
  const fresh = {
    id,
    slug,
    name: slug,
    status: 'active',
    default_agent: null,
    support_access: { transcripts: true },
    alert_thresholds: [50, 80, 100],
    subscription: null,
  };
  assert.deepEqual([status, rest], [200, fresh]);
  for (const time of [created_at, updated_at]) assert.match(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00$/);

  const changes = { name: 'Acme', default_agent: 'desk', support_access: { transcripts: false } };
  const patch = (change: object) => parley.call('PATCH', '/api/organization', { key, body: change });
  const changed = await patch({ ...changes, alert_thresholds: [90, 10] });
  await operate(parley, slug, { subscription: { plan: 'pro', status: 'active' } });
  const read = (await parley.call('GET', '/api/organization', { key })).body.organization;
  assert.equal(changed.status, 200);
  assert.ok(read.updated_at > read.created_at);
  assert.deepEqual({ ...changed.body.organization, updated_at: '', subscription: null }, { ...read, updated_at: '', subscription: null });
  assert.deepEqual(
    { ...read, created_at: '', updated_at: '' },
    {
      ...fresh,
      ...changes,
      alert_thresholds: [10, 90],
      subscription: { plan: 'pro', status: 'active' },
      created_at: '',
      updated_at: '',
    },
  );

  const twentyOne = Array.from({ length: 21 }, (_, index) => index + 1);
  for (const alert_thresholds of [[0], [1_001], [5, 5], twentyOne]) assert.equal((await patch({ alert_thresholds })).status, 422);
  assert.equal((await patch({ alert_thresholds: [5, 5] })).body.detail, 'alert_thresholds: must not have duplicate items');
  const began = performance.now();
  assert.equal((await patch({ alert_thresholds: new Array(100_000).fill(5) })).status, 422);
  assert.ok(performance.now() - began < 2_000, 'very many equal ones are refused in a moment');
  for (const refused of [{ name: '' }, { default_agent: 'nobody' }, { slug: 'x' }])
    assert.equal((await patch(refused)).status, 422, JSON.stringify(refused));
  assert.deepEqual((await parley.call('GET', '/api/organization', { key })).body.organization, read);
  assert.equal((await patch({ default_agent: null })).body.organization.default_agent, null);
});

test('an agent that is deleted at that moment does not become the default', {
  skip: engine === 'pglite' && 'the embedded engine does one after the other',
}, async () => {
  const { db } = parley.context.database;
  const { id, key } = await createOrganization(parley);
  await createAgent(parley, key, 'desk');
  const waiting = sql`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
  const answered = Promise.withResolvers<{ status: number; body: { detail: string } }>();
  await db.transaction().execute(async (deleting) => {
    await deleting.updateTable('agents').set({ deleted_at: new Date() }).where('org_id', '=', id).execute();
    parley.call('PATCH', '/api/organization', { key, body: { default_agent: 'desk' } }).then(answered.resolve, answered.reject);
    await until(async () => (await waiting.execute(db)).rows.length > 0);
  });
  const { status, body } = await answered.promise;
  assert.deepEqual([status, body.detail], [422, 'default_agent: there is no agent "desk"']);
});

test('reading and changing the organization each need their scope', async () => {
  const { key } = await createOrganization(parley);
  const reader = await createKey(parley, key, ['organization:read']);
  const writer = await createKey(parley, key, ['organization:write']);
  const refused = async (method: string, other: string) => {
    const { status, body } = await parley.call(method, '/api/organization', { key: other, ...(method === 'GET' ? {} : { body: {} }) });
    return [status, body.detail];
  };
  assert.deepEqual(await refused('GET', writer), [403, 'Missing scope: organization:read']);
  assert.deepEqual(await refused('PATCH', reader), [403, 'Missing scope: organization:write']);
});
