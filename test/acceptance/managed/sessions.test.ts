import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startApp } from '../../support/app.ts';
import { collect, ManagedClient } from '../../support/managed.ts';

const app = await startApp({ after });
const client = new ManagedClient(app);

test('create answers 201 with an idle session, with and without a body', async () => {
  for (const body of [undefined, {}, { metadata: { plan: 'pro' }, prewarm: false }]) {
    const answer = await client.request('POST', '/sessions', body);
    assert.equal(answer.status, 201, answer.text);
    const { id, ...rest } = answer.body;
    assert.match(String(id), /^ses_/);
    assert.deepEqual(rest, { object: 'session', status: 'idle' });
  }
});

test('a bad create body is 400 and writes nothing', async () => {
  const count = async () => JSON.parse((await client.request('GET', '/sessions')).text).data.length;
  const sessions = await count();
  const metadata = Object.fromEntries(Array.from({ length: 51 }, (_, index) => [`key${index}`, index]));
  const bodies = [
    { metadata: [] },
    { metadata: 'x' },
    { prewarm: 'yes' },
    { metadata },
    { metadata: { end_user_id: 7 } },
    '{"metadata":',
    '[]',
    '"x"',
  ];
  for (const body of [...bodies, { metadata: { note: 'x'.repeat(17_000) } }, '{"metadata":{"a":"\\u0000"}}']) {
    const answer = await client.request('POST', '/sessions', body);
    assert.equal(answer.status, 400, `${JSON.stringify(body).slice(0, 80)} gave ${answer.status} ${answer.text}`);
    assert.equal(typeof answer.body.detail, 'string');
  }
  assert.equal(await count(), sessions);
});

test('state is the session with its log, and the log has no gaps', async () => {
  const id = await client.create();
  assert.deepEqual(await client.state(id), { id, object: 'session', status: 'idle', events: [] });
  await client.say(id, '/say Good morning');
  assert.equal((await client.untilIdle(id)).at(-1)?.type, 'session.status_idle');
  const { status, events } = await client.state(id);
  assert.equal(status, 'idle');
  assert.deepEqual(
    events.map(({ seq, type }) => [seq, type]),
    [
      [1, 'user.message'],
      [2, 'session.status_running'],
      [3, 'agent.message'],
      [4, 'session.status_idle'],
    ],
  );
  assert.equal(events[2]?.text, 'Good morning');
  assert.equal(events[3]?.stop_reason, 'end_turn');
  assert.match(String(events[0]?.created_at), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00$/);
});

test('the transcript holds what was said', async () => {
  const id = await client.create({ metadata: { end_user_id: 'grace' } });
  await client.say(id, '/say Hello Grace');
  await client.untilIdle(id);
  const answer = await client.request('GET', `/sessions/${id}/transcript`);
  assert.equal(answer.status, 200);
  assert.deepEqual(answer.body, {
    session_id: id,
    messages: [
      { role: 'user', text: '/say Hello Grace' },
      { role: 'assistant', text: 'Hello Grace' },
    ],
  });
  assert.equal((await client.request('GET', `/sessions/${id}/transcript?end_user=grace`)).status, 200);
  assert.equal((await client.request('GET', `/sessions/${id}/transcript?end_user=mallory`)).text, '{"detail":"Not Found"}');
});

test('the list has the newest activity first, and an API key without end_user sees every session of the agent', async () => {
  const first = await client.create({ metadata: { end_user_id: 'lister' } });
  const second = await client.create({ metadata: { user_id: 'lister' } });
  await client.create({ metadata: { end_user_id: 'someone else' } });
  await client.say(first, '/say again');
  await client.untilIdle(first);
  const own = await client.request('GET', '/sessions?end_user=lister');
  assert.deepEqual(own.body, {
    object: 'list',
    data: [
      { id: first, object: 'session', status: 'idle' },
      { id: second, object: 'session', status: 'idle' },
    ],
  });
  const native = await app.request('POST', '/demo/assistant/v1/sessions', {});
  const ids = JSON.parse((await client.request('GET', '/sessions')).text).data.map((session: { id: string }) => session.id);
  assert.equal(ids[0], native.body.id);
  assert.ok(ids.includes(first) && ids.includes(second));
});

test('a list longer than a page is whole and in order', async () => {
  const { db } = app.context.database;
  const template = await db.selectFrom('sessions').selectAll().limit(1).executeTakeFirstOrThrow();
  const rows = Array.from({ length: 1_203 }, (_, index) => ({
    id: `ses_many_${String(index).padStart(5, '0')}`,
    org_id: template.org_id,
    agent_id: template.agent_id,
    release_version: template.release_version,
    surface: 'managed' as const,
    metadata: '{}',
    end_user_id: 'many',
    instance_key: 'x',
    current_agent: 'main',
  }));
  await db.insertInto('sessions').values(rows).execute();
  const data = JSON.parse((await client.request('GET', '/sessions?end_user=many')).text).data;
  assert.deepEqual(
    data.map((session: { id: string }) => session.id),
    rows.map((row) => row.id).reverse(),
  );
});

test('what is not there, not of this agent or not of this org is the one 404', async () => {
  const other = await app.request('POST', '/api/agents', { slug: 'other' });
  assert.equal(other.status, 201, other.text);
  const release = await app.request('POST', '/api/agents/other/releases', { activate: true });
  assert.equal(release.status, 201, release.text);
  const organization = await app.request(
    'POST',
    '/operator/organizations',
    { slug: 'rival' },
    { authorization: `Bearer ${app.operatorKey}` },
  );
  const rival = client.as(String(organization.body.api_key));
  const id = await client.create();
  const below = new ManagedClient(app, app.apiKey, 'demo/other');
  const foreign = new ManagedClient(app, app.apiKey, 'rival/assistant');
  for (const [who, sessionId] of [
    [client, 'ses_unknown'],
    [client, 'x'.repeat(300)],
    [below, id],
    [rival, id],
    [foreign, id],
    [new ManagedClient(app, app.apiKey, 'demo/nobody'), id],
  ] as const) {
    for (const [method, path, body] of [
      ['GET', ''],
      ['GET', '/transcript'],
      ['GET', '/warm'],
      ['GET', '/events/stream'],
      ['POST', '/prewarm'],
      ['POST', '/events', { type: 'not even valid' }],
      ['POST', '/files', {}],
    ] as const) {
      const answer = await who.request(method, `/sessions/${sessionId}${path}`, body);
      assert.equal(answer.status, 404, `${method} ${path}: ${answer.text}`);
      assert.equal(answer.text, '{"detail":"Not Found"}');
    }
  }
  const none = await app.request('POST', '/api/agents', { slug: 'empty' });
  assert.equal(none.status, 201);
  assert.equal((await new ManagedClient(app, app.apiKey, 'demo/empty').request('POST', '/sessions', {})).status, 404);
});

test('without a credential, or with a wrong one, everything is 401', async () => {
  for (const authorization of ['', 'Bearer svc_live_wrongwrongwrongwrong', 'Bearer x.y.z', 'Basic abc']) {
    const answer = await app.request('POST', `${client.base}/sessions`, {}, { authorization });
    assert.equal(answer.status, 401, authorization);
    assert.equal(answer.text, '{"detail":"Unauthorized"}');
  }
});

test('prewarm answers 202 at once, and the warm stream ends with ready', async () => {
  const id = await client.create({ prewarm: false });
  assert.equal(app.context.warm.of(id), undefined);
  const stream = await client.stream(`/sessions/${id}/warm`);
  assert.match(stream.response.headers.get('content-type') ?? '', /^text\/event-stream/);
  const frames = await collect(stream);
  assert.deepEqual(new Set(frames.map((frame) => frame.event)), new Set(['warm']));
  const statuses = frames.map((frame) => frame.data.status);
  assert.equal(statuses[0], 'warming');
  assert.equal(statuses.at(-1), 'ready');
  const cold = await client.create({ prewarm: false });
  const answer = await client.request('POST', `/sessions/${cold}/prewarm`);
  assert.equal(answer.status, 202);
  assert.deepEqual(answer.body, { status: 'warming' });
  await app.context.warm.of(cold)?.done;
  assert.deepEqual(app.context.warm.of(cold)?.state, { status: 'ready' });
});

test('warming that fails ends with error and its message, and a turn can still be sent', async () => {
  const id = await client.create({ prewarm: false });
  const { db } = app.context.database;
  await db.updateTable('sessions').set({ release_version: 99 }).where('id', '=', id).execute();
  app.context.settings.forget(id);
  const frames = await collect(await client.stream(`/sessions/${id}/warm`));
  assert.equal(frames.at(-1)?.data.status, 'error');
  assert.equal(typeof frames.at(-1)?.data.message, 'string');
  await db.updateTable('sessions').set({ release_version: 1 }).where('id', '=', id).execute();
  const cold = await client.create({ prewarm: false });
  for (const session of [id, cold]) {
    await client.say(session, '/say cold but fine');
    assert.equal((await client.untilIdle(session)).at(-1)?.type, 'session.status_idle');
    await app.context.warm.of(session)?.done;
    assert.deepEqual(app.context.warm.of(session)?.state, { status: 'ready' }, 'a turn warms too');
  }
});

test('create with prewarm warms in the background', async () => {
  const id = await client.create();
  await app.context.warm.of(id)?.done;
  assert.deepEqual(app.context.warm.of(id)?.state, { status: 'ready' });
});

test('a session that is stopped is cold, and warms again when it is resumed', async () => {
  const id = await client.create();
  await app.context.warm.of(id)?.done;
  assert.equal((await app.request('DELETE', `/demo/assistant/v1/sessions/${id}`)).status, 204);
  assert.equal(app.context.warm.of(id), undefined);
  await app.request('POST', '/demo/assistant/v1/sessions', { session_id: id });
  const frames = await collect(await client.stream(`/sessions/${id}/warm`));
  assert.equal(frames.at(-1)?.data.status, 'ready');
});

test('a release that is not materialized is 409', async () => {
  const { db } = app.context.database;
  assert.equal((await app.request('POST', '/api/agents', { slug: 'pending' })).status, 201);
  assert.equal((await app.request('POST', '/api/agents/pending/releases', { activate: true })).status, 201);
  const agent = await db.selectFrom('agents').select('id').where('slug', '=', 'pending').executeTakeFirstOrThrow();
  await db.updateTable('releases').set({ state: 'pending' }).where('agent_id', '=', agent.id).execute();
  app.context.directory.invalidate('all');
  const answer = await new ManagedClient(app, app.apiKey, 'demo/pending').request('POST', '/sessions', {});
  assert.equal(answer.status, 409, answer.text);
});
