import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startApp } from '../support/app.ts';
import { createTenant } from '../support/tenants.ts';

const app = await startApp({ after });
const url = await app.listen();

test('a key creates one session, however often it is sent', async () => {
  const tenant = await createTenant(url);
  for (const base of ['', tenant.agentPath]) {
    const create = (body: unknown) => tenant.post(`${base}/v1/sessions`, body, { 'idempotency-key': `create ${base}` });
    const answers = await Promise.all([create({ metadata: { a: 1 } }), create({ metadata: { a: 1 } })]);
    const [first, second] = answers;
    assert.equal(first?.status, 200);
    assert.equal(second?.text, first?.text);
    assert.deepEqual(answers.map((answer) => answer.headers.get('idempotent-replayed')).sort(), ['true', null].sort());
    const path = `${base}/v1/sessions/${first?.body.id}/messages`;
    const send = (key: string) => tenant.post(path, { text: '/say hi' }, { 'idempotency-key': key });
    assert.equal((await send(`send ${base}`)).status, 200);
    for (const refused of [
      await create({ metadata: { a: 2 } }),
      await send(`create ${base}`),
      await tenant.post(`${base}/v1/sessions`, { text: '/say hi' }, { 'idempotency-key': `send ${base}` }),
    ])
      assert.deepEqual([refused.status, refused.body.detail?.error], [422, 'idempotency_key_reused']);
  }
  assert.equal((await tenant.get(`${tenant.agentPath}/v1/sessions`)).body.total, 2);
});

test('a refused create leaves its key free, and what it makes later is no replay', async () => {
  const tenant = await createTenant(url);
  await tenant.patch('/api/organization', { default_agent: null });
  const create = (body: unknown) => tenant.post('/v1/sessions', body, { 'idempotency-key': 'refused' });
  assert.equal((await create({})).status, 404);
  await tenant.patch('/api/organization', { default_agent: 'helper' });
  const answer = await create({ metadata: { a: 1 } });
  assert.deepEqual([answer.status, answer.headers.get('idempotent-replayed')], [200, null]);
});

for (const moment of ['has its answer', 'has only created the session'] as const) {
  test(`a create that is refused when its repetition ${moment} does not leave the key free`, async (t) => {
    const tenant = await createTenant(url);
    const { directory, newSessions } = app.context;
    const [reading, created, refused] = [Promise.withResolvers<void>(), Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    t.mock.method(
      directory,
      'activeRelease',
      async () => {
        reading.resolve();
        await created.promise;
        return undefined;
      },
      { times: 1 },
    );
    const insert = newSessions.insert.bind(newSessions);
    if (moment === 'has only created the session')
      t.mock.method(newSessions, 'insert', async (...args: Parameters<typeof insert>) => {
        const session = await insert(...args);
        created.resolve();
        await refused.promise;
        return session;
      });
    const create = () => tenant.post('/v1/sessions', {}, { 'idempotency-key': 'overtaken' });
    const first = create();
    await reading.promise;
    const second = create();
    if (moment === 'has its answer') {
      await second;
      created.resolve();
    }
    assert.equal((await first).status, 404);
    refused.resolve();
    const { status, body } = await second;
    assert.equal(status, 200);
    const again = await create();
    assert.deepEqual([again.status, again.body, again.headers.get('idempotent-replayed')], [200, body, 'true']);
  });
}
