// Requests to the two adapters that are sent again.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { adapters, sessionCount, transcript, withToken } from '../support/adapter-wire.ts';
import { startApp } from '../support/app.ts';
import { createTenant, type Tenant } from '../support/tenants.ts';
import type { Wire } from '../support/wire.ts';

const app = await startApp({ after });
const url = await app.listen();

for (const { name, body } of adapters) {
  const pathOf = (tenant: Tenant) => `${tenant.agentPath}/v1/${name}`;

  test(`${name}: the same Idempotency-Key is the same turn in the same new session`, async () => {
    const tenant = await createTenant(url);
    const send = (text: string) => tenant.post(pathOf(tenant), body(text), { 'idempotency-key': 'k1' });
    const answers = await Promise.all([send('hello'), send('hello'), send('hello')]);
    const again = await send('hello');
    for (const answer of answers) {
      assert.equal(answer.text, again.text);
      assert.equal(answer.headers.get('x-svc-session'), again.headers.get('x-svc-session'));
    }
    assert.equal(again.headers.get('idempotent-replayed'), 'true');
    assert.equal(await sessionCount(tenant), 1);
    const reused = await send('something else');
    assert.deepEqual([reused.status, reused.body.error.code], [422, 'idempotency_key_reused']);
    assert.equal(await sessionCount(tenant), 1);
  });

  test(`${name}: a client library's own retry attaches to the turn it started`, async () => {
    const tenant = await createTenant(url);
    const slow = body('/delay 10\n/words 8', { stream: true });
    const stream = await tenant.stream(pathOf(tenant), slow);
    await stream.next();
    await stream.leave();
    const retried = await tenant.post(pathOf(tenant), slow, { 'x-stainless-retry-count': '1' });
    assert.equal(retried.headers.get('x-svc-session'), stream.response.headers.get('x-svc-session'));
    assert.equal(await sessionCount(tenant), 1);
    assert.equal((await transcript(tenant, retried.headers.get('x-svc-session') ?? '')).length, 2);
    const plain = await tenant.post(pathOf(tenant), slow, { 'x-stainless-retry-count': '0' });
    assert.notEqual(plain.headers.get('x-svc-session'), retried.headers.get('x-svc-session'));

    const unstored = (count: string) =>
      tenant.post(pathOf(tenant), body('/say once', { store: false }), { 'x-stainless-retry-count': count });
    const [first, again, another] = [await unstored('0'), await unstored('1'), await unstored('0')];
    assert.deepEqual([again.status, again.text], [200, first.text], 'also when its session is gone');
    assert.equal(again.headers.get('x-svc-session'), first.headers.get('x-svc-session'));
    assert.notEqual(another.text, first.text);
    const longAgo = { created_at: new Date(Date.now() - 610_000) };
    await app.context.database.db.updateTable('idempotency_keys').set(longAgo).where('key', 'like', 'retry%').execute();
    assert.notEqual((await unstored('1')).text, another.text, 'for ten minutes');
  });

  test(`${name}: a retry that had looked for the turn before it was started attaches to it too`, async (t) => {
    const tenant = await createTenant(url);
    const { turns } = app.context;
    const admit = turns.admit.bind(turns);
    for (const store of [true, false]) {
      const send = (count: string) => tenant.post(pathOf(tenant), body('/say once', { store }), { 'x-stainless-retry-count': count });
      const [looked, started] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const held = async (...args: Parameters<typeof admit>) => {
        looked.resolve();
        await started.promise;
        return admit(...args);
      };
      t.mock.method(turns, 'admit', held, { times: 1 });
      const retried = send('1');
      await looked.promise;
      const first = await send('0');
      started.resolve();
      const { status, text, headers } = await retried;
      assert.deepEqual([status, text, headers.get('idempotent-replayed')], [200, first.text, null], `stored: ${store}`);
      assert.equal(headers.get('x-svc-session'), first.headers.get('x-svc-session'));
    }
    assert.equal(await sessionCount(tenant), 1);
  });
}

test('visitors who send the same X-Svc-Session to a route that does not read it are not the same caller', async () => {
  const tenant = await createTenant(url);
  const [one, two] = [await withToken(tenant, {}), await withToken(tenant, {})];
  const responses = `${tenant.agentPath}/v1/responses`;
  for (const named of ['', 'undefined']) {
    for (const [path, sent, repetition] of [
      [responses, { input: 'hi' }, { 'x-stainless-retry-count': '1' }],
      [responses, { input: 'hi' }, { 'idempotency-key': `response ${named}` }],
      [`${tenant.agentPath}/v1/managed-agents/sessions`, {}, { 'idempotency-key': `session ${named}` }],
    ] as const) {
      const send = (visitor: Wire) => visitor.post(path, sent, { 'x-svc-session': named, ...repetition });
      const [first, other, again] = [await send(one), await send(two), await send(one)];
      assert.ok(other.status < 300, other.text);
      assert.equal(other.headers.get('idempotent-replayed'), null);
      assert.notEqual(other.body.id, first.body.id, `${path} with "${named}"`);
      assert.equal(again.text, first.text);
    }
  }
});
