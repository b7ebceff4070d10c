import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, test } from 'node:test';
import { setImmediate as nextPass, setTimeout as sleep } from 'node:timers/promises';
import { deadUrl } from '../support/accounts.ts';
import { startApp } from '../support/app.ts';
import { parseJson } from '../support/json.ts';
import { createTenant, type Tenant } from '../support/tenants.ts';
import { untilAccepted } from '../support/turns.ts';
import { textOf } from '../support/wire.ts';

const app = await startApp({ after });
const url = await app.listen();

const userTexts = async (tenant: Tenant, id: string): Promise<string[]> => {
  const { body } = await tenant.get(`${tenant.agentPath}/v1/sessions/${id}/messages`);
  return body.messages.filter((message: { role: string }) => message.role === 'user').map((message: { text: string }) => message.text);
};

/** A turn that runs until it is stopped; resolves once it has begun. */
const occupy = async (tenant: Tenant, id: string, text = '/delay 60000\n/say held up') => {
  const stream = await tenant.stream(`/v1/sessions/${id}/messages`, { text, stream: true });
  await stream.until('text');
  return stream;
};

// First, while no other organization is here: beside one, some of these messages would wait at the door and be let in together.
test('a message of one surface is not overtaken by a later one of another', async () => {
  const agent = '/demo/assistant/v1';
  const id = `order-${randomUUID()}`;
  await app.request('POST', `${agent}/sessions`, { session_id: id });
  const texts = Array.from({ length: 16 }, (_, index) => `/say ${index}`);
  const sent: Promise<{ status: number }>[] = [];
  const surfaces: ((text: string) => [path: string, body: unknown])[] = [
    (text) => [`managed-agents/sessions/${id}/events`, { type: 'user.message', text }],
    (text) => ['responses', { input: text, conversation: id }],
    (text) => [`sessions/${id}/messages`, { text }],
    (text) => ['chat/completions', { messages: [{ role: 'user', content: text }], metadata: { session_id: id } }],
  ];
  for (const [index, text] of texts.entries()) {
    const [path, body] = surfaces[index % 4]?.(text) ?? [];
    const key: Record<string, string> = index % 8 < 4 ? { 'idempotency-key': `${id} ${index}` } : {};
    sent.push(app.request('POST', `${agent}/${path}`, body, key));
    await nextPass();
  }
  assert.deepEqual(
    (await Promise.all(sent)).map(({ status }) => status),
    texts.map((_, index) => (index % 4 === 0 ? 202 : 200)),
  );
  const transcript = parseJson((await app.request('GET', `${agent}/sessions/${id}/messages`)).text);
  assert.deepEqual(
    transcript.messages.flatMap(({ role, text }: { role: string; text: string }) => (role === 'user' ? [text] : [])),
    texts,
  );
});

test('nor is a message to a session that has to be read first, when the second read is the faster one', async (t) => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  app.context.settings.forget(id);
  const { directory } = app.context;
  const release = directory.release.bind(directory);
  const held = Promise.withResolvers<void>();
  const reading = Promise.withResolvers<void>();
  t.mock.method(directory, 'release').mock.mockImplementationOnce(async (...asked: Parameters<typeof release>) => {
    reading.resolve();
    await held.promise;
    return release(...asked);
  });
  const first = tenant.post(`/v1/sessions/${id}/messages`, { text: '/say first' });
  await reading.promise;
  const second = tenant.post(`/v1/sessions/${id}/messages`, { text: '/say second' });
  // Long enough for the second message to be answered, if it does not wait.
  await Promise.race([second, sleep(300)]);
  held.resolve();
  await Promise.all([first, second]);
  assert.deepEqual(await userTexts(tenant, id), ['/say first', '/say second']);
});

test('messages of one session run one after another, in the order of their arrival', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const sent: Promise<{ body: { text: string } }>[] = [];
  for (let index = 0; index < 10; index += 1) {
    sent.push(tenant.post(`/v1/sessions/${id}/messages`, { text: `/delay 5\n/say answer ${index}` }));
    await untilAccepted(app, id, index + 1);
  }
  const answers = await Promise.all(sent);
  answers.forEach((answer, index) => {
    assert.equal(answer.body.text, `answer ${index}`);
  });
  assert.deepEqual(
    await userTexts(tenant, id),
    answers.map((_, index) => `/delay 5\n/say answer ${index}`),
  );
});

test('a waiting message is not in the conversation until its turn takes it', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const stream = await tenant.stream(`/v1/sessions/${id}/messages`, { text: '/delay 25\n/words 10', stream: true });
  await stream.until('text');
  const waiting = tenant.say(id, 'hello');
  assert.deepEqual(await userTexts(tenant, id), ['/delay 25\n/words 10']);
  await stream.rest();
  assert.match((await waiting).text, /turn 2/);
});

test('sixteen wait; one more is 429 with Retry-After, and stopping answers all who wait', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const first = await occupy(tenant, id);
  const send = (stream: boolean) => tenant.post(`/v1/sessions/${id}/messages`, { text: 'hello', stream });
  const settled: number[] = [];
  const waiting = Array.from({ length: 16 }, async (_, index) => {
    const answer = await send(index % 2 === 0);
    settled.push(answer.status);
    return answer;
  });
  await untilAccepted(app, id, 17);
  const refused = await send(false);
  assert.equal(refused.status, 429);
  assert.equal(typeof refused.body.detail, 'string');
  assert.match(refused.headers.get('retry-after') ?? '', /^[1-9]\d*$/);
  assert.deepEqual(settled, [], 'all sixteen wait');

  await tenant.delete(`${tenant.agentPath}/v1/sessions/${id}`);
  const frames = await first.rest();
  assert.equal(frames.at(-1)?.event, 'done');
  assert.equal(frames.at(-1)?.data.data.stop_reason, 'interrupted');
  for (const answer of await Promise.all(waiting)) assert.equal(answer.status, 200, answer.text);
  assert.equal((await userTexts(tenant, id)).length, 17, 'what was accepted is kept');
  const [listed] = (await tenant.get(`${tenant.agentPath}/v1/sessions`)).body.sessions;
  assert.equal(listed.message_count, 18, 'and the first words of the first answer');
});

test('what a stopped session ended does not run when it is resumed', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const first = await occupy(tenant, id);
  const waiting = tenant.stream(`/v1/sessions/${id}/messages`, { text: '/say never said', stream: true });
  const stream = await waiting;
  await tenant.delete(`${tenant.agentPath}/v1/sessions/${id}`);
  const frames = await stream.rest();
  assert.deepEqual(
    frames.map((frame) => frame.event),
    ['done'],
  );
  assert.equal(frames[0]?.data.data.stop_reason, 'interrupted');
  await first.rest();
  await tenant.post('/v1/sessions', { session_id: id });
  assert.equal((await tenant.say(id, '/say said')).text, 'said');
  const { body } = await tenant.get(`${tenant.agentPath}/v1/sessions/${id}/messages`);
  assert.equal(
    body.messages.some((message: { role: string; text: string }) => message.role === 'assistant' && message.text === 'never said'),
    false,
  );
});

test('what waited when a session was stopped does not run when it is resumed before its turn has ended either', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const send = (text: string) => tenant.post(`/v1/sessions/${id}/messages`, { text });
  const first = send('/delay 400\n/say one two');
  await untilAccepted(app, id, 1);
  const waited = send('/say never said');
  await untilAccepted(app, id, 2);
  // As it is stopped by another process, which has yet to tell this one.
  await app.context.log.apply({ kind: 'stop', org: tenant.orgId, session: id, reason: 'stop' });
  assert.equal((await tenant.post('/v1/sessions', { session_id: id })).body.status, 'active');
  const later = send('/say said');
  assert.equal((await first).status, 200);
  const { text, stop_reason } = (await waited).body;
  assert.deepEqual({ text, stop_reason }, { text: '', stop_reason: 'interrupted' });
  assert.equal((await later).body.text, 'said');
  const [listed] = (await tenant.get(`${tenant.agentPath}/v1/sessions`)).body.sessions;
  assert.equal(listed.message_count, 5);
});

test('the line moves up: a place is free again as soon as a turn has ended', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const first = await tenant.stream(`/v1/sessions/${id}/messages`, { text: '/delay 1500\n/say one two', stream: true });
  await first.until('text');
  const waiting = Array.from({ length: 16 }, (_, index) => tenant.say(id, `/say ${index}`));
  await untilAccepted(app, id, 17);
  assert.equal((await tenant.post(`/v1/sessions/${id}/messages`, { text: 'x' })).status, 429);
  assert.equal(textOf(await first.rest()), 'two');
  await Promise.all(waiting);
  assert.equal((await tenant.say(id, '/say free')).text, 'free');
});

test('a failed turn lets the next one begin', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const failing = tenant.post(`/v1/sessions/${id}/messages`, { text: '/delay 20\n/fail unauthorized' });
  const next = tenant.say(id, '/say next');
  assert.equal((await failing).status, 422);
  assert.equal((await next).text, 'next');
});

test('beyond PARLEY_MAX_TURNS a turn is 503 with Retry-After, and a message to a session whose turn runs waits', async (context) => {
  const small = await startApp(context, { settings: { PARLEY_MAX_TURNS: '2', PARLEY_GATEWAY: '1', PARLEY_WEBHOOK_ALLOW_PRIVATE: '1' } });
  const tenant = await createTenant(await small.listen());
  const [free, ...busy] = [await tenant.session(), await tenant.session(), await tenant.session()];
  const say = (key: string) => tenant.post(`/v1/sessions/${free}/messages`, { text: '/say hi' }, { 'idempotency-key': key });
  const early = await say('early');
  const streams = await Promise.all(busy.map((id) => occupy(tenant, id)));
  const again = await say('early');
  assert.deepEqual(
    [again.status, again.headers.get('idempotent-replayed'), again.text],
    [200, 'true', early.text],
    'nothing is run for it',
  );
  const refused = await say('late');
  assert.equal(refused.status, 503);
  assert.match(refused.headers.get('retry-after') ?? '', /^[1-9]\d*$/);
  assert.equal(typeof refused.body.detail, 'string');
  const [held = ''] = busy;
  const waiting = tenant.say(held, '/say in line');
  const endpoint = { name: 'Hook', url: deadUrl, event_types: ['session.started'] };
  assert.equal((await tenant.post('/api/webhook_endpoints', endpoint)).status, 201);
  const started = () => small.context.database.db.selectFrom('webhook_events').select(['type', 'data']).execute();
  const before = await started();
  const submitted = { sender_id: 'ada', sender_type: 'human', event_type: 'message', message: 'hi' };
  for (const [path, body] of [
    [`${tenant.agentPath}/v1/chat/completions`, { messages: [{ role: 'user', content: 'hi' }] }],
    [`${tenant.agentPath}/v1/responses`, { input: 'hi' }],
    ['/v1/gateway/events', submitted],
  ] as const)
    assert.equal((await tenant.post(path, body)).status, 503, path);
  assert.deepEqual(await started(), before, 'no webhook tells of a session that was opened for nothing');
  await tenant.post(`${tenant.agentPath}/v1/managed-agents/sessions/${held}/events`, { type: 'user.interrupt' });
  assert.equal((await waiting).text, 'in line');
  for (const id of busy) await tenant.delete(`${tenant.agentPath}/v1/sessions/${id}`);
  for (const stream of streams) await stream.rest();
  assert.equal((await tenant.say(await tenant.session(), '/say room again')).text, 'room again');
});

test('of turns that are asked for at the same moment no more run than PARLEY_MAX_TURNS, and nothing of the others is kept', async (context) => {
  const small = await startApp(context, { settings: { PARLEY_MAX_TURNS: '4' } });
  const tenant = await createTenant(await small.listen());
  const sessions = await Promise.all(Array.from({ length: 12 }, () => tenant.session()));
  const text = '/delay 1500\n/say in time';
  const answers = await Promise.all(sessions.map((id) => tenant.post(`/v1/sessions/${id}/messages`, { text })));
  const statuses = answers.map(({ status }) => status);
  assert.deepEqual(statuses.toSorted(), [...Array(4).fill(200), ...Array(8).fill(503)]);
  const kept = await Promise.all(sessions.map((id) => userTexts(tenant, id)));
  assert.deepEqual(
    kept,
    statuses.map((status) => (status === 200 ? [text] : [])),
  );
});

test('no session is opened for a completion that comes while another opens its own at the last place', async (context) => {
  const small = await startApp(context, { settings: { PARLEY_MAX_TURNS: '4' } });
  const tenant = await createTenant(await small.listen());
  const complete = (content: string) => tenant.post(`${tenant.agentPath}/v1/chat/completions`, { messages: [{ role: 'user', content }] });
  // Reads what later ones have in memory.
  await complete('/say first');
  const opened = context.mock.method(small.context.newSessions, 'insert');
  const answers = await Promise.all(Array.from({ length: 12 }, () => complete('/delay 1500\n/say in time')));
  assert.deepEqual(answers.map(({ status }) => status).toSorted(), [...Array(4).fill(200), ...Array(8).fill(503)]);
  assert.equal(opened.mock.callCount(), 4);
});
