import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startApp } from '../support/app.ts';
import { createTenant } from '../support/tenants.ts';

const app = await startApp({ after });
const url = await app.listen();
const notFound = '{"detail":"Not Found"}';
const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00$/;

test('a session is created with 200 and has exactly the documented fields, on the flat route without agent', async () => {
  const tenant = await createTenant(url);
  const answer = await tenant.post('/v1/sessions', { metadata: { plan: 'gold', nested: { deep: [1, null] } } });
  assert.equal(answer.status, 200);
  const { id, created_at, updated_at, ...rest } = answer.body;
  assert.match(id, /^ses_[0-9A-Z]+$/);
  assert.match(created_at, time);
  assert.match(updated_at, time);
  assert.deepEqual(rest, {
    metadata: { plan: 'gold', nested: { deep: [1, null] } },
    current_agent: 'main',
    status: 'active',
    parent_id: null,
    pending_input: null,
    permission_mode: null,
    participants: [],
  });
});

test('metadata comes back as it was sent, whatever its keys', async () => {
  const tenant = await createTenant(url);
  const metadata = { '': 1, 'two\nlines': 2, '\u2028': 3, constructor: 4, nested: { 'a\nb': [null] } };
  const made = await tenant.post('/v1/sessions', { metadata });
  assert.deepEqual(made.body.metadata, metadata);
  assert.deepEqual((await tenant.get(`/v1/sessions/${made.body.id}`)).body.metadata, metadata);
});

test('on the agent route the session names its agent and the release it is pinned to', async () => {
  const tenant = await createTenant(url, { main: 'front', agents: [{ name: 'front' }] });
  const answer = await tenant.post(`${tenant.agentPath}/v1/sessions`, {});
  assert.equal(answer.status, 200);
  assert.equal(answer.body.current_agent, 'front');
  assert.equal(answer.body.agent.ref, `${tenant.slug}/helper`);
  assert.ok(Number.isInteger(answer.body.agent.agent_id));
  assert.equal(answer.body.agent.version, 1);
  assert.deepEqual(Object.keys(answer.body.agent).sort(), ['agent_id', 'ref', 'version']);
});

test('every body that may be left out may be: none, an empty one, and null', async () => {
  const tenant = await createTenant(url);
  for (const base of ['', tenant.agentPath]) {
    assert.equal((await tenant.post(`${base}/v1/sessions`)).status, 200);
    assert.equal((await tenant.post(`${base}/v1/sessions`, '')).status, 200);
    assert.equal((await tenant.post(`${base}/v1/sessions`, {})).status, 200);
    assert.equal((await tenant.post(`${base}/v1/sessions`, null)).status, 200);
  }
});

test('ids sort by the time they were made', async () => {
  const tenant = await createTenant(url);
  const ids = [];
  for (let index = 0; index < 5; index += 1) ids.push(await tenant.session());
  assert.deepEqual(ids, [...ids].sort());
});

test('a session_id that names no session makes one of exactly that id; the same one again resumes it', async () => {
  const tenant = await createTenant(url);
  const id = `${tenant.slug}_My-Own-Id`;
  const made = await tenant.post('/v1/sessions', { session_id: id, metadata: { a: 1 } });
  assert.equal(made.body.id, id);
  await tenant.say(id, 'hello');
  for (const base of ['', tenant.agentPath]) {
    const again = await tenant.post(`${base}/v1/sessions`, { session_id: id, metadata: { b: 2 }, permission_mode: 'locked' });
    const { metadata, permission_mode, created_at } = again.body;
    assert.deepEqual([again.status, again.body.id, created_at], [200, id, made.body.created_at]);
    assert.deepEqual([metadata, permission_mode], [{ a: 1 }, null], 'as it was created');
  }
  const { text } = await tenant.say(id, 'and again');
  assert.match(text, /turn 2/);
});

test('two creations of one id at the same moment are one session', async () => {
  const tenant = await createTenant(url);
  const id = `${tenant.slug}-race`;
  const answers = await Promise.all(Array.from({ length: 8 }, () => tenant.post('/v1/sessions', { session_id: id })));
  for (const answer of answers) assert.equal(answer.status, 200, answer.text);
  assert.equal(new Set(answers.map((answer) => answer.body.created_at)).size, 1);
  const list = await tenant.get(`${tenant.agentPath}/v1/sessions`);
  assert.equal(list.body.total, 1);
});

test("another org's session_id is 404 like any unknown session, on create, fetch, message and inputs", async () => {
  const owner = await createTenant(url);
  const stranger = await createTenant(url);
  const id = await owner.session();
  for (const base of ['', stranger.agentPath]) {
    const answers = [
      await stranger.post(`${base}/v1/sessions`, { session_id: id }),
      await stranger.get(`${base}/v1/sessions/${id}`),
      await stranger.get(`${base}/v1/sessions/ses_nowhere`),
      await stranger.post(`${base}/v1/sessions/${id}/messages`, { text: 'hi' }),
      await stranger.put(`${base}/v1/sessions/${id}/inputs/req_1`, { decision: 'deny' }),
    ];
    for (const answer of answers) assert.deepEqual([answer.status, answer.text], [404, notFound]);
  }
  for (const answer of [
    await stranger.get(`${stranger.agentPath}/v1/sessions/${id}/messages`),
    await stranger.delete(`${stranger.agentPath}/v1/sessions/${id}`),
    await stranger.get(`${owner.agentPath}/v1/sessions/${id}`),
    await stranger.get(`${owner.agentPath}/v1/sessions`),
    await stranger.post(`${owner.agentPath}/v1/sessions`, {}),
  ])
    assert.deepEqual([answer.status, answer.text], [404, notFound]);
});

test('below another agent of the same org a session does not exist, and cannot be resumed there', async () => {
  const tenant = await createTenant(url);
  await tenant.post('/api/agents', { slug: 'other' });
  await tenant.post('/api/agents/other/releases', { activate: true });
  const id = await tenant.session();
  const other = `/${tenant.slug}/other/v1/sessions`;
  for (const answer of [
    await tenant.get(`${other}/${id}`),
    await tenant.post(other, { session_id: id }),
    await tenant.post(`${other}/${id}/messages`, { text: 'hi' }),
    await tenant.get(`${other}/${id}/messages`),
    await tenant.delete(`${other}/${id}`),
  ])
    assert.deepEqual([answer.status, answer.text], [404, notFound]);
  assert.equal((await tenant.get(`/v1/sessions/${id}`)).body.status, 'active');
  const { total, sessions } = (await tenant.get(other)).body;
  assert.deepEqual([total, sessions], [0, []], 'nor is it listed');
});

test('fetching gives the object that creating gave, with the agent on the agent route', async () => {
  const tenant = await createTenant(url);
  const made = await tenant.post('/v1/sessions', { metadata: { end_user_id: 'u1' }, permission_mode: 'locked' });
  assert.equal(made.body.permission_mode, 'locked');
  const flat = await tenant.get(`/v1/sessions/${made.body.id}`);
  assert.deepEqual(flat.body, made.body);
  const { agent, ...rest } = (await tenant.get(`${tenant.agentPath}/v1/sessions/${made.body.id}`)).body;
  assert.deepEqual(rest, made.body);
  assert.equal(agent.ref, `${tenant.slug}/helper`);
});

test('an id is 1 to 128 of the permitted characters; anything else is 422 and makes nothing', async () => {
  const tenant = await createTenant(url);
  assert.equal((await tenant.post('/v1/sessions', { session_id: 'x'.repeat(128 - tenant.slug.length) + tenant.slug })).status, 200);
  for (const session_id of ['', 'a b', 'a/b', 'é', 'x'.repeat(129), 'a.b', 5, null, {}]) {
    const answer = await tenant.post('/v1/sessions', { session_id });
    assert.equal(answer.status, 422, JSON.stringify(session_id));
    assert.equal(typeof answer.body.detail, 'string');
  }
  assert.equal((await tenant.get(`${tenant.agentPath}/v1/sessions`)).body.total, 1);
});

test('metadata has at most 50 keys and 16 KiB; one more is 422 and nothing is written', async () => {
  const tenant = await createTenant(url);
  const keys = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, index]));
  assert.equal((await tenant.post('/v1/sessions', { metadata: keys(50) })).status, 200);
  const room = 16 * 1024 - '{"a":""}'.length;
  assert.equal((await tenant.post('/v1/sessions', { metadata: { a: 'x'.repeat(room) } })).status, 200);
  const refused = [
    keys(51),
    { a: 'x'.repeat(room + 1) },
    { a: 'é'.repeat(room / 2 + 1) },
    { end_user_id: 7 },
    { end_user_id: '' },
    { agent_instance_id: ['x'] },
    [],
    'text',
  ];
  for (const metadata of refused) {
    const session_id = `${tenant.slug}-refused`;
    const answer = await tenant.post('/v1/sessions', { session_id, metadata });
    assert.equal(answer.status, 422, answer.text);
    assert.equal((await tenant.get(`/v1/sessions/${session_id}`)).status, 404);
  }
  assert.equal((await tenant.get(`${tenant.agentPath}/v1/sessions`)).body.total, 2);
});

test('the flat family talks to the default agent; an org without one has no sessions to make', async () => {
  const tenant = await createTenant(url);
  await tenant.post('/api/agents', { slug: 'second', default: true });
  await tenant.post('/api/agents/second/releases', { main: 'second-main', agents: [{ name: 'second-main' }], activate: true });
  assert.equal((await tenant.post('/v1/sessions', {})).body.current_agent, 'second-main');
  await tenant.delete('/api/agents/second');
  const gone = await tenant.post('/v1/sessions', {});
  assert.deepEqual([gone.status, gone.text], [404, notFound]);
});

test('a flat create that resumes a session needs no default agent: it goes on with its own', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  await tenant.delete(`${tenant.agentPath}/v1/sessions/${id}`);
  assert.equal((await tenant.patch('/api/organization', { default_agent: null })).status, 200);
  const unknown = await tenant.post('/v1/sessions', { session_id: `${tenant.slug}-new` });
  assert.deepEqual([unknown.status, unknown.text], [404, notFound]);
  const resumed = await tenant.post('/v1/sessions', { session_id: id });
  assert.deepEqual([resumed.status, resumed.body.id, resumed.body.status], [200, id, 'active']);
  assert.equal((await tenant.say(id, '/say with my own agent')).text, 'with my own agent');
});

test('a session_id that the caller cannot see is 404 before anything else in the body is 422', async () => {
  const owner = await createTenant(url);
  const stranger = await createTenant(url);
  const theirs = await owner.session();
  const own = await stranger.session();
  const bad = [{ metadata: { end_user_id: 7 } }, { metadata: [] }, { permission_mode: 'loose' }, { session_id: 7 }];
  for (const base of ['', stranger.agentPath]) {
    for (const wrong of bad) {
      const create = (session_id: string) => stranger.post(`${base}/v1/sessions`, { session_id, ...wrong });
      const [unknown, hidden] = [await create(`${stranger.slug}-unknown`), await create(theirs)];
      assert.deepEqual([unknown.status, (await create(own)).text], [422, unknown.text]);
      // With no id to read there is nothing to look for.
      const expected = 'session_id' in wrong ? [422, unknown.text] : [404, notFound];
      assert.deepEqual([hidden.status, hidden.text], expected);
    }
    const keyed = (session_id: string) => stranger.post(`${base}/v1/sessions`, { session_id }, { 'idempotency-key': '' });
    assert.deepEqual([(await keyed(theirs)).status, (await keyed(own)).status], [404, 422]);
  }
  assert.equal((await stranger.get(`/v1/sessions/${stranger.slug}-unknown`)).status, 404);
});
