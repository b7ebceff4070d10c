// Chat completions with `store: false`: the session is deleted after its turn, and a repeated request gets its answer all the same.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sessionCount, transcript } from '../support/adapter-wire.ts';
import { startApp } from '../support/app.ts';
import { createTenant, type Tenant } from '../support/tenants.ts';
import { until } from '../support/until.ts';

const app = await startApp({ after });
const url = await app.listen();

const user = (content: unknown) => ({ role: 'user', content });
const pathOf = (tenant: Tenant) => `${tenant.agentPath}/v1/chat/completions`;

test('store: false drops the session that the call opened, unary and streamed; a session that was kept stays', async () => {
  const tenant = await createTenant(url);
  for (const stream of [false, true]) {
    const answer = await tenant.post(pathOf(tenant), { store: false, stream, messages: [user('/say gone')] });
    assert.ok(answer.text.includes('gone'));
    const session = answer.headers.get('x-svc-session') ?? '';
    assert.equal((await tenant.get(`${tenant.agentPath}/v1/sessions/${session}`)).status, 404);
  }
  assert.equal(await sessionCount(tenant), 0);
  const kept = await tenant.session();
  await tenant.post(pathOf(tenant), { store: false, messages: [user('hi')] }, { 'x-svc-session': kept });
  assert.equal((await transcript(tenant, kept)).length, 2);
});

test('a client that leaves an unstored stream leaves nothing behind', async () => {
  const tenant = await createTenant(url);
  const stream = await tenant.stream(pathOf(tenant), { store: false, stream: true, messages: [user('/delay 20\n/words 8')] });
  await stream.next();
  await stream.leave();
  await until(async () => (await sessionCount(tenant)) === 0);
});

test('store: false under an Idempotency-Key runs once, also when the first client left; a repetition gets the whole answer', async () => {
  const tenant = await createTenant(url);
  const key = { 'idempotency-key': 'unstored' };
  const body = { store: false, stream: true, messages: [user('/delay 20\n/words 8')] };
  const left = await tenant.stream(pathOf(tenant), body, key);
  const id = (await left.next())?.data.id;
  await left.leave();
  await until(async () => (await sessionCount(tenant)) === 0);
  const again = await tenant.post(pathOf(tenant), body, key);
  assert.deepEqual([again.status, again.headers.get('idempotent-replayed'), again.text.includes(id)], [200, 'true', true]);
  assert.match(again.text, /"finish_reason":"stop".*\n\n.*"usage".*\n\ndata: \[DONE\]\n\n$/);

  const unary = () => tenant.post(pathOf(tenant), { ...body, stream: false }, { 'idempotency-key': 'unary' });
  const [first, second] = [await unary(), await unary()];
  assert.deepEqual([second.status, second.text], [200, first.text]);

  for (const named of ['header', 'metadata']) {
    const running = await tenant.stream(pathOf(tenant), body);
    const session = running.response.headers.get('x-svc-session') ?? '';
    const messages = [user('/say I waited')];
    const goOn = () =>
      named === 'header'
        ? tenant.post(pathOf(tenant), { messages }, { 'x-svc-session': session, 'idempotency-key': named })
        : tenant.post(pathOf(tenant), { messages, metadata: { session_id: session } }, { 'idempotency-key': named });
    const waited = await goOn();
    assert.equal(waited.body.choices[0].message.content, 'I waited');
    await running.rest();
    await until(async () => (await sessionCount(tenant)) === 0);
    const told = await goOn();
    assert.deepEqual([told.status, told.text], [200, waited.text], `in the session of another, named by ${named}`);
  }
});
