import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startApp } from '../support/app.ts';
import { serveProvider } from '../support/provider-server.ts';
import { createTenant } from '../support/tenants.ts';

let now = new Date();
const app = await startApp({ after }, { clock: { now: () => now }, settings: { PARLEY_ALLOW_PRIVATE_UPSTREAMS: '1' } });
const url = await app.listen();

test('the list has its agent, page and total around it, newest activity first', async () => {
  const tenant = await createTenant(url);
  const first = await tenant.session({ metadata: { user_id: 'an older name', end_user_id: 'ann' } });
  const second = await tenant.session({ metadata: { user_id: 'bob' } });
  const third = await tenant.session();
  await tenant.say(first, '/say hi');
  const { status, body } = await tenant.get(`${tenant.agentPath}/v1/sessions`);
  assert.equal(status, 200);
  const { sessions, agent, ...rest } = body;
  assert.deepEqual(rest, { page: 1, per_page: 50, total: 3 });
  assert.deepEqual(agent, { ref: `${tenant.slug}/helper`, agent_id: agent.agent_id });
  assert.ok(Number.isInteger(agent.agent_id));
  const [{ last_message_at, ...item }, ...others] = sessions;
  assert.match(last_message_at, /\+00:00$/);
  await tenant.operate({ total_tokens_cap: 1_000_000 });
  await tenant.say(first, '/delay 20\n/say hi again');
  const log = (await tenant.get(`${tenant.agentPath}/v1/managed-agents/sessions/${first}`)).body.events;
  const answers = log.filter((entry: { type: string }) => entry.type === 'agent.message');
  const [later] = (await tenant.get(`${tenant.agentPath}/v1/sessions`)).body.sessions;
  const times = answers.map((entry: { created_at: string }) => entry.created_at);
  assert.deepEqual(times, [last_message_at, later.last_message_at], 'when the agent said it, with a budget and without');
  await tenant.say(first, '/delay 20\n/tool bash {"command":"ls"}');
  const asked = (await tenant.get(`${tenant.agentPath}/v1/managed-agents/sessions/${first}`)).body.events.at(-4);
  const [waiting] = (await tenant.get(`${tenant.agentPath}/v1/sessions`)).body.sessions;
  assert.deepEqual([asked.type, waiting.last_message_at], ['user.message', asked.created_at], 'a call is no message');
  assert.deepEqual(item, { id: first, status: 'active', message_count: 2, end_user_id: 'ann' });
  assert.deepEqual(others, [
    { id: third, status: 'active', message_count: 0, last_message_at: null, end_user_id: null },
    { id: second, status: 'active', message_count: 0, last_message_at: null, end_user_id: 'bob' },
  ]);
});

test('pages are 1-based and per_page is clamped to 1..200', async () => {
  const tenant = await createTenant(url);
  const ids: string[] = [];
  for (let index = 0; index < 5; index += 1) ids.unshift(await tenant.session());
  const list = async (query: string) => (await tenant.get(`${tenant.agentPath}/v1/sessions?${query}`)).body;
  const page = async (number: number) => {
    const { sessions, page, per_page, total } = await list(`page=${number}&per_page=2`);
    assert.deepEqual({ page, per_page, total }, { page: number, per_page: 2, total: 5 });
    return sessions.map((session: { id: string }) => session.id);
  };
  assert.deepEqual([...(await page(1)), ...(await page(2)), ...(await page(3))], ids);
  assert.deepEqual(await page(4), []);
  assert.equal((await list('per_page=0')).per_page, 1);
  assert.equal((await list('per_page=-3')).per_page, 1);
  assert.equal((await list('per_page=1000')).per_page, 200);
  assert.equal((await list('page=&per_page=&active=')).per_page, 50, 'as an empty field of a form is sent');
  assert.equal((await list('page=0')).page, 1);
  assert.equal((await list('page=-1')).sessions.length, 5);
  assert.deepEqual((await list('page=2000000000&per_page=200')).sessions, []);
});

test('a query of the wrong type is 422 and never a 500', async () => {
  const tenant = await createTenant(url);
  for (const query of ['page=two', 'per_page=many', 'active=perhaps', 'page=1&page=2', 'page=1.5', 'per_page=2.5', 'page=1e300'])
    assert.equal((await tenant.get(`${tenant.agentPath}/v1/sessions?${query}`)).status, 422, query);
  for (const query of ['unknown=1', 'active=false'])
    assert.equal((await tenant.get(`${tenant.agentPath}/v1/sessions?${query}`)).status, 200, query);
});

test('a per_page of any size is clamped, and a page that no number holds is 422 instead of another one', async () => {
  const tenant = await createTenant(url);
  const list = (query: string) => tenant.get(`${tenant.agentPath}/v1/sessions?${query}`);
  for (const digits of ['9007199254740993', '9'.repeat(20), '9'.repeat(400)]) {
    const { page, per_page } = (await list(`page=-${digits}&per_page=${digits}`)).body;
    assert.deepEqual([page, per_page], [1, 200], digits);
    assert.equal((await list(`per_page=-${digits}`)).body.per_page, 1, digits);
    const refused = await list(`page=${digits}`);
    assert.deepEqual([refused.status, refused.body.detail], [422, 'page: must be <= 9007199254740991'], digits);
  }
  assert.deepEqual((await list('page=9007199254740991')).body.page, 9007199254740991);
});

test('active=true leaves out what was quiet for 15 minutes', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const active = async () => (await tenant.get(`${tenant.agentPath}/v1/sessions?active=true`)).body;
  assert.equal((await active()).total, 1);
  now = new Date(Date.now() + 14 * 60_000);
  assert.deepEqual(
    (await active()).sessions.map((session: { id: string }) => session.id),
    [id],
  );
  now = new Date(Date.now() + 15 * 60_000 + 1_000);
  const quiet = await active();
  now = new Date();
  assert.deepEqual([quiet.total, quiet.sessions], [0, []]);
});

test('the transcript is what was said, in order, by role', async () => {
  const tenant = await createTenant(url, { permissions: { mode: 'autonomous' } });
  const id = await tenant.session();
  await tenant.say(id, '/say One.');
  await tenant.say(id, '/think quietly\n/tool bash {"command":"echo two"}\n/say Two.');
  const { status, body } = await tenant.get(`${tenant.agentPath}/v1/sessions/${id}/messages`);
  assert.equal(status, 200);
  assert.deepEqual(body, {
    session: { id, status: 'active' },
    messages: [
      { role: 'user', text: '/say One.' },
      { role: 'assistant', text: 'One.' },
      { role: 'user', text: '/think quietly\n/tool bash {"command":"echo two"}\n/say Two.' },
      { role: 'assistant', text: 'Two.' },
    ],
  });
});

test('message_count counts what the transcript has: the texts of a turn as one message, an empty answer as none', async (context) => {
  const chunk = (delta: unknown, finish_reason: string | null = null) =>
    `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', model: 'm', choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
  const call = { index: 0, id: 'call_1', type: 'function', function: { name: 'bash', arguments: '{"command":"echo hi"}' } };
  const provider = await serveProvider(
    { body: chunk({ content: 'Looking.' }) + chunk({ tool_calls: [call] }) + chunk({}, 'tool_calls') },
    { body: chunk({ content: 'Done.' }) + chunk({}, 'stop') },
    { body: chunk({ content: '' }) + chunk({}, 'stop') },
  );
  context.after(() => provider.close());
  const tenant = await createTenant(url);
  await tenant.put('/api/model_credentials/openai-compatible', { api_key: 'sk-1234567890' });
  await tenant.release({ model: { provider: 'openai-compatible', name: 'm', base_url: `${provider.origin}/v1` } });
  const id = await tenant.session();
  const compare = async (texts: string[]) => {
    const { messages } = (await tenant.get(`${tenant.agentPath}/v1/sessions/${id}/messages`)).body;
    assert.deepEqual(
      messages.map(({ text }: { text: string }) => text),
      texts,
    );
    const [listed] = (await tenant.get(`${tenant.agentPath}/v1/sessions`)).body.sessions;
    assert.equal(listed.message_count, texts.length);
    return Date.parse(listed.last_message_at);
  };
  const frames = await (await tenant.stream(`/v1/sessions/${id}/messages`, { text: 'look', stream: true })).rest();
  const paused = await compare(['look', 'Looking.']);
  await tenant.put(`/v1/sessions/${id}/inputs/${frames.at(-1)?.data.data.request_id}`, { decision: 'approve_once' });
  assert.ok((await compare(['look', 'Looking.\n\nDone.'])) > paused, 'its last words came later');
  await (await tenant.stream(`/v1/sessions/${id}/messages`, { text: 'and?', stream: true })).rest();
  await compare(['look', 'Looking.\n\nDone.', 'and?']);
});

test('the transcript needs the scope sessions:read; the other native routes need none', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const narrow = await tenant.keyWith(['usage:read']);
  const refused = await narrow.get(`${tenant.agentPath}/v1/sessions/${id}/messages`);
  assert.deepEqual([refused.status, refused.body], [403, { detail: 'Missing scope: sessions:read' }]);
  const unknown = await narrow.get(`${tenant.agentPath}/v1/sessions/ses_nowhere/messages`);
  assert.equal(unknown.status, 404, '404 comes before 403');
  assert.equal((await narrow.get(`${tenant.agentPath}/v1/sessions/${id}`)).status, 200);
  assert.equal((await narrow.get(`${tenant.agentPath}/v1/sessions`)).status, 200);
  assert.equal((await narrow.post(`/v1/sessions/${id}/messages`, { text: 'hi' })).status, 200);
  const reader = await tenant.keyWith(['sessions:read']);
  assert.equal((await reader.get(`${tenant.agentPath}/v1/sessions/${id}/messages`)).status, 200);
});

test('without support access transcripts are 403, and 404 still comes first', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const changed = await tenant.patch('/api/organization', { support_access: { transcripts: false } });
  assert.equal(changed.status, 200, changed.text);
  const refused = await tenant.get(`${tenant.agentPath}/v1/sessions/${id}/messages`);
  assert.equal(refused.status, 403);
  assert.equal(typeof refused.body.detail, 'string');
  assert.equal((await tenant.get(`${tenant.agentPath}/v1/sessions/ses_nowhere/messages`)).status, 404);
  await tenant.patch('/api/organization', { support_access: { transcripts: true } });
  assert.equal((await tenant.get(`${tenant.agentPath}/v1/sessions/${id}/messages`)).status, 200);
});

test('stopping is 204 without a body, again and again; the record stays readable and takes no messages', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  await tenant.say(id, '/say kept');
  for (let time = 0; time < 2; time += 1) {
    const stopped = await tenant.delete(`${tenant.agentPath}/v1/sessions/${id}`);
    assert.deepEqual([stopped.status, stopped.text], [204, '']);
  }
  assert.equal((await tenant.get(`/v1/sessions/${id}`)).body.status, 'stopped');
  assert.equal((await tenant.get(`${tenant.agentPath}/v1/sessions`)).body.sessions[0].status, 'stopped');
  const transcript = await tenant.get(`${tenant.agentPath}/v1/sessions/${id}/messages`);
  assert.deepEqual(transcript.body.session, { id, status: 'stopped' });
  assert.equal(transcript.body.messages.length, 2);
  for (const stream of [false, true]) {
    const refused = await tenant.post(`/v1/sessions/${id}/messages`, { text: 'hi', stream });
    assert.equal(refused.status, 409);
    assert.equal(refused.body.detail.error, 'session_stopped');
    assert.equal(typeof refused.body.detail.message, 'string');
  }
  const resumed = await tenant.post('/v1/sessions', { session_id: id });
  assert.deepEqual([resumed.status, resumed.body.status], [200, 'active']);
  assert.match((await tenant.say(id, 'hello')).text, /turn 2/);
});

test('a stop is accepted with an empty JSON body too, and there is none on the flat route', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const flat = await tenant.delete(`/v1/sessions/${id}`);
  assert.deepEqual([flat.status, flat.text], [404, '{"detail":"Not Found"}']);
  const stopped = await tenant.delete(`${tenant.agentPath}/v1/sessions/${id}`, { 'content-type': 'application/json' });
  assert.equal(stopped.status, 204);
});

test('the search tells a session that runs from one that waits, rests or was stopped', async () => {
  const tenant = await createTenant(url);
  const [running, waiting, idle, stopped] = [
    await tenant.session(),
    await tenant.session(),
    await tenant.session(),
    await tenant.session(),
  ];
  const turn = tenant.say(running, '/delay 20\n/words 1000');
  await tenant.say(waiting, '/tool bash {"command":"true"}');
  await tenant.delete(`${tenant.agentPath}/v1/sessions/${stopped}`);
  const found: Record<string, string[]> = {};
  for (const state of ['running', 'waiting', 'idle', 'stopped']) {
    const { body } = await tenant.get(`/dashboard/api/sessions?state=${state}`);
    found[state] = body.data.map((session: { id: string; state: string }) => `${session.id} ${session.state}`);
  }
  await tenant.delete(`${tenant.agentPath}/v1/sessions/${running}`);
  await turn;
  assert.deepEqual(found, {
    running: [`${running} running`],
    waiting: [`${waiting} waiting`],
    idle: [`${idle} idle`],
    stopped: [`${stopped} stopped`],
  });
});

test('the search goes on from its cursor, and refuses one that it did not make', async () => {
  const tenant = await createTenant(url);
  const sessions = [await tenant.session(), await tenant.session(), await tenant.session()];
  const found: string[] = [];
  for (let cursor = ''; cursor !== null; ) {
    const { body } = await tenant.get(`/dashboard/api/sessions?limit=1&cursor=${cursor}`);
    found.push(...body.data.map(({ id }: { id: string }) => id));
    cursor = body.next_cursor;
  }
  assert.deepEqual(found, sessions.toReversed());
  const times = ['2026-13-01 00:00:00+00', '2026-02-30 00:00:00+00', '2026-01-01 25:00:00+00', '2026-01-01 00:00:00+99', '2026-01-01'];
  for (const time of times) {
    const made = Buffer.from(JSON.stringify(['sessions', time, 'x'])).toString('base64url');
    const refused = await tenant.get(`/dashboard/api/sessions?cursor=${made}`);
    assert.deepEqual([refused.status, refused.body], [422, { detail: 'cursor: is not a cursor of this list' }], time);
  }
});

test('a session that a process whose clock is ahead makes active again is not listed above later ones', async (context) => {
  const tenant = await createTenant(url);
  const [first, second] = [await tenant.session(), await tenant.session()];
  await tenant.delete(`${tenant.agentPath}/v1/sessions/${first}`);
  context.mock.timers.enable({ apis: ['Date'], now: Date.now() + 3_600_000 });
  await tenant.session({ session_id: first });
  context.mock.timers.reset();
  await tenant.say(second, '/say later');
  const { body } = await tenant.get(`${tenant.agentPath}/v1/sessions`);
  assert.deepEqual(
    body.sessions.map(({ id }: { id: string }) => id),
    [second, first],
  );
});
