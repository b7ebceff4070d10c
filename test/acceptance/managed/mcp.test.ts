// One engine: what this tries is on the client's, the model's or a tool's side of the wire.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import { mcpToolName } from '../../../src/mcp-tool-name.ts';
import { answerWithFetch } from '../../support/answer-with-fetch.ts';
import { startApp } from '../../support/app.ts';
import { engine } from '../../support/engine.ts';
import { serveLocally } from '../../support/local-server.ts';
import { ManagedClient, mintToken } from '../../support/managed.ts';
import { secret, startAppWithMcp } from '../../support/mcp-app.ts';
import { startMcpServer } from '../../support/mcp-server.ts';
import { until } from '../../support/until.ts';

const { app, options, server, crm, stored, release } = await startAppWithMcp({ after });
await release('crm', { mcp_servers: [crm] });
await release('two', { mcp_servers: [crm, { ...crm, name: 'archive' }] });
await release('bare', {});
await release('free', { mcp_servers: [crm], permissions: { mode: 'autonomous', rules: [{ tool: 'crm__leak', action: 'deny' }] } });

const client = new ManagedClient(app, app.apiKey, 'demo/crm');

test('a browser lists, calls and reads through its session, and never sees the credential', async () => {
  const alice = client.as(await mintToken(app, { end_user_id: 'alice' }, 'crm'));
  const id = await alice.create();
  const ask = async (method: string, params?: unknown) => {
    const answer = await alice.request('POST', '/mcp', { method, ...(params === undefined ? {} : { params }) }, { 'x-svc-session': id });
    assert.equal(answer.status, 200, `${method}: ${answer.text}`);
    assert.ok(!answer.text.includes(secret));
    return JSON.parse(answer.text);
  };
  const { tools } = await ask('tools/list');
  assert.deepEqual(
    tools.map((tool: { name: string }) => tool.name),
    ['find', 'rename', 'leak', 'fail', 'hang'],
  );
  assert.deepEqual((await ask('tools/call', { name: 'find', arguments: { name: 'Ada' } })).content, [{ type: 'text', text: 'found Ada' }]);
  assert.equal((await ask('resources/list')).resources[0].uri, 'notes://all');
  assert.equal((await ask('resources/read', { uri: 'notes://all' })).contents[0].text, 'all notes');
  assert.equal((await ask('prompts/list')).prompts[0].name, 'greet');
  assert.equal((await ask('prompts/get', { name: 'greet' })).messages[0].content.text, 'say hello');
  assert.ok(server.credentials.includes(`Bearer ${secret}`));
});

test('a guarded tool is 403 until the session has approved it', async () => {
  const id = await client.create();
  const renameIn = (session: string) =>
    client.request(
      'POST',
      '/mcp',
      { method: 'tools/call', params: { name: 'rename', arguments: { to: 'Bo' } } },
      { 'x-svc-session': session },
    );
  const rename = () => renameIn(id);
  const refused = await rename();
  assert.equal(refused.status, 403, refused.text);
  assert.equal(refused.body.detail.error, 'approval_required');
  let seq = 0;
  for (const [result, status] of [
    ['approve_once', 403],
    ['approve_session', 200],
  ] as const) {
    await client.say(id, '/tool crm__rename {"to":"Al"}');
    const pause = (await client.untilIdle(id, seq)).at(-1);
    assert.equal(pause?.stop_reason, 'requires_action');
    await client.post(id, { type: 'user.tool_confirmation', request_id: pause?.request_id, result });
    seq = (await client.untilIdle(id, pause?.seq)).at(-1)?.seq ?? 0;
    assert.equal((await rename()).status, status, result);
  }
  assert.equal((await renameIn(await client.create())).status, 403, 'another session has approved nothing');
});

test('the rules and the mode of the release hold as in a turn', async () => {
  const free = new ManagedClient(app, app.apiKey, 'demo/free');
  const id = await free.create();
  const call = (name: string) =>
    free.request('POST', '/mcp', { method: 'tools/call', params: { name, arguments: { to: 'Bo' } } }, { 'x-svc-session': id });
  assert.equal((await call('rename')).status, 200);
  const denied = await call('leak');
  assert.deepEqual([denied.status, denied.body.detail.error], [403, 'tool_denied']);
});

test('what cannot be asked is 400, and an unknown session 404', async () => {
  const id = await client.create();
  const ask = (body: unknown, session: string | undefined = id) =>
    client.request('POST', '/mcp', body, session === undefined ? {} : { 'x-svc-session': session });
  for (const body of [
    undefined,
    {},
    { method: 7 },
    { method: 'tools/delete' },
    { method: 'initialize' },
    { method: 'tools/list', params: [] },
    { method: 'tools/call', params: {} },
    { method: 'tools/call', params: { name: 'unknown' } },
    { method: 'tools/list', params: { server: 'unknown' } },
    { method: 'resources/read', params: { uri: 'notes://none' } },
  ]) {
    const answer = await ask(body);
    assert.equal(answer.status, 400, `${JSON.stringify(body)} gave ${answer.status} ${answer.text}`);
  }
  assert.equal((await client.request('POST', '/mcp', { method: 'tools/list' })).status, 400, 'no header');
  assert.equal((await ask({ method: 'tools/list' }, 'ses_unknown')).text, '{"detail":"Not Found"}');
  const bare = new ManagedClient(app, app.apiKey, 'demo/bare');
  assert.equal((await bare.request('POST', '/mcp', { method: 'tools/list' }, { 'x-svc-session': await bare.create() })).status, 400);
  assert.equal((await bare.request('POST', '/mcp', { method: 'tools/list' }, { 'x-svc-session': id })).status, 404, 'below another agent');
});

test('a tool that the server has since the release is not there', async (t) => {
  const id = await client.create();
  const ask = (method: string, params: object) => client.request('POST', '/mcp', { method, params }, { 'x-svc-session': id });
  server.added.push('merge');
  t.after(() => server.added.pop());
  const { body } = await ask('tools/list', {});
  assert.ok(server.requests.includes('POST tools/list'));
  assert.deepEqual(
    body.tools.map((tool: { name: string }) => tool.name),
    ['find', 'rename', 'leak', 'fail', 'hang'],
  );
  assert.equal((await ask('tools/call', { name: 'merge', arguments: {} })).status, 400);
});

test('params.server chooses where the release has several', async () => {
  const two = new ManagedClient(app, app.apiKey, 'demo/two');
  const id = await two.create();
  const list = (params: unknown) => two.request('POST', '/mcp', { method: 'tools/list', params }, { 'x-svc-session': id });
  assert.equal((await list({})).status, 400);
  assert.equal((await list({ server: 'archive' })).status, 200);
});

test('a session that is stopped, by another process too, or not kept, leaves nothing open at its server', async (t) => {
  const other = engine === 'pglite' ? app : await startApp(t, options);
  const keeping = await startMcpServer(secret, 'sessions');
  t.after(() => keeping.close());
  await release('keeping', { mcp_servers: [{ ...crm, url: keeping.url }] });
  const kept = new ManagedClient(app, app.apiKey, 'demo/keeping');
  const id = await kept.create();
  await app.context.warm.of(id)?.done;
  const answer = await kept.request('POST', '/mcp', { method: 'tools/list' }, { 'x-svc-session': id });
  assert.equal(answer.status, 200, answer.text);
  await until(async () => keeping.sessions.size === 1);
  assert.equal((await other.request('DELETE', `/demo/keeping/v1/sessions/${id}`)).status, 204);
  await until(async () => keeping.sessions.size === 0);
  const before = keeping.requests.length;
  const body = { store: false, messages: [{ role: 'user', content: '/tool crm__find {"name":"Ada"}' }] };
  const said = await app.request('POST', '/demo/keeping/v1/chat/completions', body);
  assert.match(said.text, /found Ada/);
  assert.ok(keeping.requests.slice(before).includes('POST tools/call'));
  await until(async () => keeping.sessions.size === 0);
});

test('create and prewarm answer at once, however long warming takes, which ends with the session', { timeout: 20_000 }, async (t) => {
  const { promise: answersAgain, resolve: answerAgain } = Promise.withResolvers<void>();
  let isSlow = false;
  let unanswered = 0;
  const slow = await serveLocally(async (incoming, outgoing) => {
    const body = Buffer.concat(await incoming.toArray()).toString();
    unanswered += 1;
    outgoing.on('close', () => {
      unanswered -= 1;
    });
    if (isSlow) await answersAgain;
    await answerWithFetch(incoming, body, outgoing, ({ method, headers }) =>
      fetch(server.url, { method, headers: forwarded(headers), ...(body === '' ? {} : { body }) }),
    );
  });
  t.after(() => {
    answerAgain();
    slow.close();
  });
  await release('slow', { mcp_servers: [{ ...crm, url: `${slow.origin}/mcp` }] });
  isSlow = true;
  const waiting = new ManagedClient(app, app.apiKey, 'demo/slow');
  const [created, cold] = [await waiting.create(), await waiting.create({ prewarm: false })];
  assert.equal((await waiting.request('POST', `/sessions/${cold}/prewarm`)).status, 202);
  for (const id of [created, cold]) assert.deepEqual(app.context.warm.of(id)?.state, { status: 'warming' });
  const stopped = await waiting.create();
  await until(async () => unanswered === 3);
  assert.equal((await app.request('DELETE', `/demo/slow/v1/sessions/${stopped}`)).status, 204);
  await until(async () => unanswered === 2);
  answerAgain();
  for (const id of [created, cold]) {
    await app.context.warm.of(id)?.done;
    assert.deepEqual(app.context.warm.of(id)?.state, { status: 'ready' });
  }
});

/** The headers that matter to the server behind: the others are about the connection. */
function forwarded(headers: Headers): [string, string][] {
  return [...headers].filter(([name]) => /^(authorization|accept|content-type|mcp-.*)$/.test(name));
}

test('a server that is gone is 502, and warming says error', async () => {
  const gone = await startMcpServer(secret);
  await release('gone', { mcp_servers: [{ ...crm, url: gone.url }] });
  gone.close();
  const broken = new ManagedClient(app, app.apiKey, 'demo/gone');
  const id = await broken.create();
  await app.context.warm.of(id)?.done;
  assert.equal(app.context.warm.of(id)?.state.status, 'error');
  const answer = await broken.request('POST', '/mcp', { method: 'tools/list' }, { 'x-svc-session': id });
  assert.equal(answer.status, 502, answer.text);
  await broken.say(id, '/say a turn can still be sent');
  assert.equal((await broken.untilIdle(id)).at(-1)?.stop_reason, 'end_turn');
});

test('a tool whose name cannot be stored, or a reason that cannot, fails the release and says so', async (t) => {
  const broken = await serveLocally(async (incoming, outgoing) => {
    const { id } = JSON.parse(Buffer.concat(await incoming.toArray()).toString());
    const error = { code: -32_603, message: 'out of\0order' };
    outgoing.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ jsonrpc: '2.0', id, error }));
  });
  t.after(() => broken.close());
  server.added.push('odd\0name');
  t.after(() => server.added.pop());
  await stored('POST', '/api/agents', { slug: 'odd' }, 201);
  for (const [url, reason] of [
    [server.url, /the name of the tool "odd\\u0000name" cannot be stored/],
    [broken.origin, /out of\uFFFDorder/],
  ] as const) {
    await stored('POST', '/api/agents/odd/releases', { mcp_servers: [{ ...crm, url }] }, 201);
    const newest = async () => JSON.parse((await app.request('GET', '/api/agents/odd/releases')).text).data[0];
    await until(async () => (await newest()).state === 'failed');
    assert.match((await newest()).error, reason);
  }
});

test('a tool whose name cannot be stored, pinned by an older version, is asked for as any other', async () => {
  await release('older', { mcp_servers: [crm] });
  const { db } = app.context.database;
  await sql`update releases set pinned_tools = replace(pinned_tools::text, '"rename"', '"re\\u0000name"')::json`.execute(db);
  const older = new ManagedClient(app, app.apiKey, 'demo/older');
  const id = await older.create();
  const name = mcpToolName({ server: 'crm', name: 're\0name' });
  await older.say(id, `/tool ${name} {}`);
  const last = (await older.untilIdle(id)).at(-1);
  assert.equal(last?.stop_reason, 'requires_action', JSON.stringify(last));
});

test('a tool is guarded as its own server says, also where another tool has its name, as an older version let it', async () => {
  await release('alike', { mcp_servers: ['a_', 'a'].map((name) => ({ ...crm, name })) });
  const { db } = app.context.database;
  const [was, is] = ['rename', '_find'].map((name) => `"server":"a","name":"${name}"`);
  await sql`update releases set pinned_tools = replace(pinned_tools::text, ${was}::text, ${is}::text)::json`.execute(db);
  const alike = new ManagedClient(app, app.apiKey, 'demo/alike');
  const id = await alike.create();
  const call = (server: string, name: string) =>
    alike.request('POST', '/mcp', { method: 'tools/call', params: { server, name, arguments: { name: 'Ada' } } }, { 'x-svc-session': id });
  assert.equal((await call('a_', 'find')).status, 200);
  const refused = await call('a', '_find');
  assert.deepEqual([refused.status, refused.body.detail.error], [403, 'approval_required']);
});
