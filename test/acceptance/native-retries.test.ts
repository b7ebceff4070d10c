// Own process: it sets the clock ahead by a day, and new ids remember the latest time that they had.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import { withToken } from '../support/adapter-wire.ts';
import { startApp } from '../support/app.ts';
import { createTenant, type Tenant } from '../support/tenants.ts';
import { textOf } from '../support/wire.ts';

const app = await startApp({ after });
const url = await app.listen();

const turnsOf = async (tenant: Tenant, id: string): Promise<number> => {
  const { body } = await tenant.get(`${tenant.agentPath}/v1/sessions/${id}/messages`);
  return body.messages.filter((message: { role: string }) => message.role === 'user').length;
};

test('the same Idempotency-Key and body give the first answer again and say so', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const send = () => tenant.post(`/v1/sessions/${id}/messages`, { text: 'hello' }, { 'idempotency-key': 'k1' });
  const first = await send();
  assert.equal(first.headers.get('idempotent-replayed'), null);
  const again = await send();
  assert.equal(again.status, 200);
  assert.equal(again.headers.get('idempotent-replayed'), 'true');
  assert.equal(again.text, first.text);
  await tenant.operate({ credits_micros: 0 });
  await tenant.delete(`${tenant.agentPath}/v1/sessions/${id}`);
  assert.deepEqual([(await send()).status, (await send()).text], [200, first.text], 'also where another message would be refused by now');
  assert.equal(await turnsOf(tenant, id), 1);
});

test('a key is kept for 24 hours, that of a message and that of a new session', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const send = (key: string) => tenant.post(`/v1/sessions/${id}/messages`, { text: '/say so' }, { 'idempotency-key': key });
  const create = (key: string) => tenant.post('/v1/sessions', {}, { 'idempotency-key': key });
  const grow = (minutes: number) =>
    sql`update idempotency_keys set created_at = created_at - ${minutes} * interval '1 minute' where key in ('day', 'open')`.execute(
      app.context.database.db,
    );
  const replayed = async () => {
    const answers = [await send('day'), await create('open')];
    return answers.map(({ status, headers }) => [status, headers.get('idempotent-replayed')]);
  };
  await replayed();
  await grow(24 * 60 - 5);
  assert.deepEqual(await replayed(), [
    [200, 'true'],
    [200, 'true'],
  ]);
  await grow(10);
  assert.deepEqual(await replayed(), [
    [200, null],
    [200, null],
  ]);
});

test('how long a request is remembered goes by the clock of the database, however wrong that of the process is', async (t) => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const keyed = { 'idempotency-key': 'skew' };
  const say = (headers: Record<string, string>) => tenant.post(`/v1/sessions/${id}/messages`, { text: '/say once' }, headers);
  const send = async (count: string) => [
    await tenant.post('/api/api_keys', { name: 'Skewed', scopes: [] }, { 'idempotency-key': 'skewed key' }),
    await tenant.post(`${tenant.agentPath}/v1/chat/completions`, { messages: [{ role: 'user', content: '/say once' }] }, keyed),
    await say({ 'x-stainless-retry-count': count }),
  ];
  const first = await send('0');
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() + 25 * 3_600_000 });
  const again = await send('1');
  for (const [index, { text }] of again.entries()) assert.equal(text, first[index]?.text);
  assert.equal(await turnsOf(tenant, id), 1);
});

test('the same words in another session, named by a header, are another request', async () => {
  const tenant = await createTenant(url);
  const [one, two] = [await tenant.session(), await tenant.session()];
  const ask = (session: string, headers: Record<string, string>) =>
    tenant.post(
      `${tenant.agentPath}/v1/chat/completions`,
      { messages: [{ role: 'user', content: 'yes' }] },
      { 'x-svc-session': session, ...headers },
    );
  await ask(one, {});
  const retried = await ask(two, { 'x-stainless-retry-count': '1' });
  assert.deepEqual([retried.status, retried.headers.get('x-svc-session')], [200, two]);
  await ask(one, { 'idempotency-key': 'yes' });
  assert.equal((await ask(two, { 'idempotency-key': 'yes' })).status, 422);
  assert.deepEqual([await turnsOf(tenant, one), await turnsOf(tenant, two)], [2, 1]);
});

test('a header that names a session where the route does not read it makes no other request of it', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const managed = `${tenant.agentPath}/v1/managed-agents/sessions`;
  const { id: followed } = (await tenant.post(managed)).body;
  const requests: [string, unknown][] = [
    ['/v1/sessions', { metadata: { topic: 'refund' } }],
    [`/v1/sessions/${id}/messages`, { text: '/say once' }],
    [`${tenant.agentPath}/v1/responses`, { input: '/say once' }],
    [`${managed}/${followed}/events`, { type: 'user.message', text: '/say once' }],
  ];
  for (const [path, body] of requests) {
    const first = await tenant.post(path, body, { 'idempotency-key': path });
    const again = await tenant.post(path, body, { 'idempotency-key': path, 'x-svc-session': id });
    assert.deepEqual([again.status, again.headers.get('idempotent-replayed'), again.text], [first.status, 'true', first.text], path);
  }
});

test('the same key with another body or path is 422 and runs nothing', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const path = `/v1/sessions/${id}/messages`;
  const key = { 'idempotency-key': 'k1' };
  await tenant.post(path, { text: 'hello' }, key);
  const other = await tenant.session();
  for (const refused of [
    await tenant.post(path, { text: 'something else' }, key),
    await tenant.post(path, { text: 'hello', stream: true }, key),
    await tenant.post(`/v1/sessions/${other}/messages`, { text: 'hello' }, key),
  ]) {
    assert.equal(refused.status, 422);
    assert.deepEqual([refused.body.error, refused.body.detail.error], ['idempotency_key_reused', 'idempotency_key_reused']);
    assert.equal(typeof refused.body.detail.message, 'string');
  }
  assert.deepEqual([await turnsOf(tenant, id), await turnsOf(tenant, other)], [1, 0]);
});

test("keys are the org's own: another org may use the same one", async () => {
  const one = await createTenant(url);
  const two = await createTenant(url);
  for (const tenant of [one, two]) {
    const id = await tenant.session();
    const answer = await tenant.post(`/v1/sessions/${id}/messages`, { text: 'hello' }, { 'idempotency-key': 'shared' });
    assert.equal(answer.headers.get('idempotent-replayed'), null);
    assert.equal(answer.body.session_id, id);
  }
});

test("a key is the org's, not the credential's: another key of the org gets the first answer again", async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const other = await tenant.keyWith([]);
  const headers = { 'idempotency-key': 'of the org' };
  const first = await tenant.post(`/v1/sessions/${id}/messages`, { text: 'hello' }, headers);
  const again = await other.post(`/v1/sessions/${id}/messages`, { text: 'hello' }, headers);
  assert.deepEqual([again.status, again.headers.get('idempotent-replayed'), again.text], [200, 'true', first.text]);
  assert.equal((await other.post(`/v1/sessions/${id}/messages`, { text: 'bye' }, headers)).status, 422);
  assert.equal(await turnsOf(tenant, id), 1);
});

test('end users never get the answers of one another, nor those of the backend, by using the same key', async () => {
  const tenant = await createTenant(url);
  const path = `${tenant.agentPath}/v1/chat/completions`;
  const body = { messages: [{ role: 'user', content: 'hello' }] };
  const headers = { 'idempotency-key': 'guessable' };
  const callers = [
    await withToken(tenant, { end_user_id: 'alice' }),
    await withToken(tenant, { end_user_id: 'bob' }),
    await withToken(tenant, {}),
    await withToken(tenant, {}),
    tenant,
  ];
  const sessions = new Set<string | null>();
  for (const caller of callers) {
    const first = await caller.post(path, body, headers);
    assert.deepEqual([first.status, first.headers.get('idempotent-replayed')], [200, null]);
    sessions.add(first.headers.get('x-svc-session'));
    assert.equal((await caller.post(path, body, headers)).headers.get('idempotent-replayed'), 'true');
  }
  assert.equal(sessions.size, callers.length);
  // A new token of the same end user is the same caller.
  const renewed = await withToken(tenant, { end_user_id: 'alice' });
  assert.equal((await renewed.post(path, body, headers)).headers.get('idempotent-replayed'), 'true');
});

test('two requests with one key at the same moment are one turn', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const send = () => tenant.post(`/v1/sessions/${id}/messages`, { text: '/delay 30\n/words 5' }, { 'idempotency-key': 'race' });
  const answers = await Promise.all(Array.from({ length: 6 }, send));
  for (const answer of answers) assert.deepEqual([answer.status, answer.text], [200, answers[0]?.text]);
  assert.equal(answers.filter((answer) => answer.headers.get('idempotent-replayed') === null).length, 1);
  assert.equal(await turnsOf(tenant, id), 1);
});

test('a stream is replayed from its turn: the same events, while it runs and after it ended', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const open = () =>
    tenant.stream(`/v1/sessions/${id}/messages`, { text: '/delay 30\n/words 12', stream: true }, { 'idempotency-key': 'stream' });
  const first = await open();
  const begun = await first.until('text');
  const joined = await open();
  assert.equal(joined.response.headers.get('idempotent-replayed'), 'true');
  const [rest, late] = await Promise.all([first.rest(), joined.rest()]);
  const whole = textOf([...begun, ...rest]);
  assert.equal(whole.split(' ').length, 12);
  assert.equal(textOf(late), whole, 'who joins in the middle of a message is shown all of it, once');
  const replay = await (await open()).rest();
  assert.equal(textOf(replay), whole);
  assert.deepEqual(replay.at(-1)?.data, rest.at(-1)?.data);
  assert.equal(await turnsOf(tenant, id), 1);
});

test('a failed turn is replayed as the failure that it was', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const send = () => tenant.post(`/v1/sessions/${id}/messages`, { text: '/fail unauthorized' }, { 'idempotency-key': 'bad' });
  const first = await send();
  const again = await send();
  assert.deepEqual([again.status, again.text], [422, first.text]);
  assert.equal(again.headers.get('idempotent-replayed'), 'true');
});

test('a refused request leaves its key free', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  await tenant.delete(`${tenant.agentPath}/v1/sessions/${id}`);
  const send = () => tenant.post(`/v1/sessions/${id}/messages`, { text: 'hello' }, { 'idempotency-key': 'later' });
  assert.equal((await send()).status, 409);
  await tenant.post('/v1/sessions', { session_id: id });
  const answer = await send();
  assert.deepEqual([answer.status, answer.headers.get('idempotent-replayed')], [200, null]);
});

test('a key has 1 to 255 characters', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const send = (key: string) => tenant.post(`/v1/sessions/${id}/messages`, { text: '/say ok' }, { 'idempotency-key': key });
  assert.equal((await send('x'.repeat(255))).status, 200);
  assert.equal((await send('x'.repeat(256))).status, 422);
  assert.equal((await send('')).status, 422);
});

test("a client library's own retry attaches to the turn that its first try started", async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const path = `/v1/sessions/${id}/messages`;
  const open = (retry: string) => tenant.stream(path, { text: '/delay 30\n/words 6', stream: true }, { 'x-stainless-retry-count': retry });
  const first = await open('0');
  const begun = await first.until('text');
  const retried = await (await open('1')).rest();
  assert.equal(textOf(retried), textOf([...begun, ...(await first.rest())]));
  assert.equal(textOf(await (await open('2')).rest()), textOf(retried), 'also when it has ended');
  assert.equal(await turnsOf(tenant, id), 1);
  const fresh = await tenant.post(path, { text: '/say a retry of nothing runs' }, { 'x-stainless-retry-count': '1' });
  assert.equal(fresh.body.text, 'a retry of nothing runs');
  await (await open('0')).rest();
  assert.equal(await turnsOf(tenant, id), 3, 'the same words without a retry count are a new message');
  const keyed = { 'x-stainless-retry-count': '1', 'idempotency-key': 'of its own' };
  await tenant.post(path, { text: '/say a retry of nothing runs' }, keyed);
  assert.equal(await turnsOf(tenant, id), 4, 'nor is there one to attach to under another key');
});

test('a retry belongs to the turn of its first try for 10 minutes', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const retry = () => tenant.post(`/v1/sessions/${id}/messages`, { text: '/say so' }, { 'x-stainless-retry-count': '1' });
  const grow = (seconds: number) =>
    sql`update turns set created_at = created_at - ${seconds} * interval '1 second' where session_id = ${id}`.execute(
      app.context.database.db,
    );
  await retry();
  await grow(580);
  await retry();
  assert.equal(await turnsOf(tenant, id), 1);
  await grow(30);
  await retry();
  assert.equal(await turnsOf(tenant, id), 2);
  await grow(60);
  const newest = (await tenant.post(`/v1/sessions/${id}/messages`, { text: '/say so' })).body;
  assert.deepEqual((await retry()).body.messages, newest.messages, 'of two with the same words, to the later one');
  assert.equal(await turnsOf(tenant, id), 3);
});

test("a retry of another credential is not the same caller's", async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const other = await tenant.keyWith([]);
  await tenant.post(`/v1/sessions/${id}/messages`, { text: 'hello' });
  await other.post(`/v1/sessions/${id}/messages`, { text: 'hello' }, { 'x-stainless-retry-count': '1' });
  assert.equal(await turnsOf(tenant, id), 2);
});
