import assert from 'node:assert/strict';
import { test } from 'node:test';
import { completeReleaseConfig } from '../../../src/accounts/complete-release-config.ts';
import { pinRelease } from '../../../src/accounts/pin-release.ts';
import { createGuard } from '../../../src/destination/guard.ts';
import { ServiceError } from '../../../src/errors.ts';
import { createMcpTools } from '../../../src/harness/tools/mcp.ts';
import { createMcpConnections, type McpConnections } from '../../../src/instances/mcp-connections.ts';
import { listServerTools } from '../../../src/instances/mcp-tools.ts';
import { mcpToolName } from '../../../src/mcp-tool-name.ts';
import type { McpServerConfig } from '../../../src/release-config.ts';
import { closeAfterTest } from '../../support/close-after-test.ts';
import { serveLocally } from '../../support/local-server.ts';
import { type McpServerKind, startMcpServer, type TestMcpServer } from '../../support/mcp-server.ts';
import { MemoryWorkspace } from '../../support/memory-workspace.ts';

const token = 'secret-token/with+signs"and quotes';
const fetch = createGuard({ allowPrivate: true }).fetch;
const signal = new AbortController().signal;

async function start(kind: McpServerKind = 'stateless'): Promise<TestMcpServer> {
  return closeAfterTest(await startMcpServer(token, kind));
}

function connect(options: { timeoutMs?: number; maxConnections?: number } = {}): McpConnections {
  const connections = createMcpConnections({ fetch, ...options });
  closeAfterTest(connections);
  return connections;
}

function target(server: TestMcpServer, credential: string | undefined = token) {
  return { server: { name: 'crm', url: server.url, credential: 'crm_token' }, credential };
}

for (const kind of ['stateless', 'sessions'] as const) {
  test(`a server of the ${kind} kind: its tools are listed, called, and its resources and prompts read`, async () => {
    const server = await start(kind);
    const pinned = await listServerTools(target(server).server, token, fetch);
    assert.deepEqual(
      pinned.map(({ server: from, name, read_only, repeatable }) => [from, name, read_only, repeatable]),
      [
        ['crm', 'find', true, true],
        ['crm', 'rename', false, true],
        ['crm', 'leak', false, false],
        ['crm', 'fail', false, false],
        ['crm', 'hang', false, false],
      ],
    );
    const connections = connect();
    assert.deepEqual(await connections.callTool('ses_1', target(server), 'find', { name: 'Ada' }, signal), {
      output: 'found Ada',
      isError: false,
    });
    assert.deepEqual(await connections.callTool('ses_1', target(server), 'fail', {}, signal), { output: 'it went wrong', isError: true });
    const invalid = await connections.callTool('ses_1', target(server), 'find', {}, signal);
    assert.equal(invalid.isError, true);
    const unknown = await connections.callTool('ses_1', target(server), 'nothing', {}, signal);
    assert.equal(unknown.isError, true);
    assert.match(unknown.output, /nothing/);

    const ask = (method: Parameters<McpConnections['request']>[2], params = {}) =>
      connections.request('ses_1', target(server), method, params);
    assert.match(JSON.stringify(await ask('tools/list')), /"name":"rename"/);
    assert.match(JSON.stringify(await ask('tools/call', { name: 'find', arguments: { name: 'Bo' } })), /found Bo/);
    assert.match(JSON.stringify(await ask('resources/list')), /notes:\/\/all/);
    assert.match(JSON.stringify(await ask('resources/read', { uri: 'notes://all' })), /all notes/);
    assert.match(JSON.stringify(await ask('prompts/list')), /greet/);
    assert.match(JSON.stringify(await ask('prompts/get', { name: 'greet' })), /say hello/);
    await assert.rejects(ask('resources/read', { uri: 'notes://none' }), isServiceError('invalid'));
    assert(server.credentials.every((credential) => credential === `Bearer ${token}`));
    assert.equal(
      server.requests.some((request) => request.startsWith('GET')),
      false,
    );
  });
}

test('a method that the server does not offer is its answer, though it comes with HTTP 404: nothing is sent twice', async () => {
  const server = await start('tools-only');
  const connections = connect();
  await connections.callTool('ses_1', target(server), 'find', { name: 'x' }, signal);
  const before = server.requests.length;
  const message = 'MCP server crm: Method not found';
  const ask = () => connections.request('ses_1', target(server), 'resources/list', {});
  await assert.rejects(ask(), { kind: 'invalid', message });
  await assert.rejects(ask(), { kind: 'invalid', message });
  assert.deepEqual(server.requests.slice(before), ['POST resources/list', 'POST resources/list']);
});

test('a server that forgot the session is connected to again, without a failure', async () => {
  const server = await start('sessions');
  const connections = connect();
  await connections.callTool('ses_1', target(server), 'find', { name: 'x' }, signal);
  server.sessions.clear();
  assert.equal((await connections.callTool('ses_1', target(server), 'find', { name: 'y' }, signal)).output, 'found y');
});

test('a server that is down is a failure of that call only; the next one connects again', async () => {
  const server = await start();
  const connections = connect();
  await connections.callTool('ses_1', target(server), 'find', { name: 'x' }, signal);
  const gone = { ...target(server), server: { name: 'crm', url: await deadUrl() } };
  const failure = await connections.callTool('ses_1', gone, 'find', { name: 'x' }, signal);
  assert.equal(failure.isError, true);
  assert.equal(
    failure.output,
    'MCP server crm: the server cannot be reached (ECONNREFUSED)',
    'without its address, which end users may read',
  );
  await assert.rejects(connections.request('ses_1', gone, 'tools/list', {}), isServiceError('upstream'));
  assert.equal((await connections.callTool('ses_1', target(server), 'find', { name: 'z' }, signal)).output, 'found z');
});

test('a tool that never answers times out; aborting ends it with the reason', async () => {
  const server = await start();
  const hasty = connect({ timeoutMs: 150 });
  assert.deepEqual(await hasty.callTool('ses_1', target(server), 'hang', {}, signal), {
    output: 'MCP server crm: the server did not answer in time',
    isError: true,
  });
  const aborting = new AbortController();
  const call = connect().callTool('ses_1', target(server), 'hang', {}, aborting.signal);
  const reason = new Error('interrupted');
  setTimeout(() => aborting.abort(reason), 50);
  await assert.rejects(call, reason);
});

test('an answer that is cut short is a failure at once, not when the time is up; the next call connects again', async () => {
  const server = await serveLocally((incoming, outgoing) => {
    void incoming.toArray().then((chunks) => {
      const { id, method } = JSON.parse(Buffer.concat(chunks).toString() || '{}');
      requests.push(method);
      if (id === undefined) return outgoing.writeHead(202).end();
      outgoing.writeHead(200, { 'content-type': 'text/event-stream' });
      const result = { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 'brief', version: '1' } };
      outgoing.end(method === 'initialize' ? `data: ${JSON.stringify({ jsonrpc: '2.0', id, result })}\n\n` : ': one moment\n\n');
    });
  });
  closeAfterTest(server);
  const requests: unknown[] = [];
  const brief = { server: { name: 'brief', url: `${server.origin}/mcp` }, credential: undefined };
  const connections = connect();
  const said = 'MCP server brief: the server closed the connection before it had answered';
  assert.deepEqual(await connections.callTool('ses_1', brief, 'find', {}, signal), { output: said, isError: true });
  await assert.rejects(connections.request('ses_1', brief, 'tools/list', {}), isServiceError('upstream'));
  assert.equal(requests.filter((method) => method === 'initialize').length, 2);
});

test('a tool that a server lists twice is pinned once', async () => {
  const tool = { name: 'find', inputSchema: { type: 'object' } };
  const server = await serveLocally((incoming, outgoing) => {
    void incoming.toArray().then((chunks) => {
      const { id, method } = JSON.parse(Buffer.concat(chunks).toString() || '{}');
      if (id === undefined) return outgoing.writeHead(202).end();
      const welcome = { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 'twice', version: '1' } };
      const result = method === 'initialize' ? welcome : { tools: [tool, { ...tool, description: 'again' }] };
      outgoing.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ jsonrpc: '2.0', id, result }));
    });
  });
  closeAfterTest(server);
  const pinned = await listServerTools({ name: 'twice', url: `${server.origin}/mcp` }, undefined, fetch);
  assert.deepEqual(
    pinned.map(({ name, description }) => [name, description]),
    [['find', '']],
  );
});

test('the credential is in no error, no answer and no description, even when the server repeats it', async () => {
  const server = await start();
  const connections = connect();
  const pinned = await listServerTools(target(server).server, token, fetch);
  const said: unknown[] = [pinned];
  said.push(await connections.callTool('ses_1', target(server), 'leak', {}, signal));
  said.push(await connections.request('ses_1', target(server), 'tools/call', { name: 'leak', arguments: {} }));
  said.push(await connections.request('ses_1', target(server), 'tools/list', {}));
  const wrong = 'another-secret-value';
  said.push(await connections.callTool('ses_2', target(server, wrong), 'find', { name: 'x' }, signal));
  said.push(await listServerTools(target(server).server, wrong, fetch).catch((error: Error) => error.message));
  const text = JSON.stringify(said);
  for (const secret of [token, JSON.stringify(token).slice(1, -1), wrong]) assert.equal(text.includes(secret), false);
  assert.match(text, /the token is \[hidden\]/);
});

test('a failed listing says which server, which step and why', async () => {
  const server = await start();
  const { server: config } = target(server);
  await assert.rejects(
    listServerTools(config, undefined, fetch),
    messageIs('MCP server crm: connecting failed: the server wants a credential (HTTP 401)'),
  );
  await assert.rejects(
    listServerTools({ ...config, url: await deadUrl() }, token, fetch),
    messageIs('MCP server crm: connecting failed: the server cannot be reached (ECONNREFUSED)'),
  );
  const strict = createGuard({ allowPrivate: false, liftedBy: 'PARLEY_ALLOW_PRIVATE_UPSTREAMS' }).fetch;
  await assert.rejects(listServerTools(config, token, strict), /MCP server crm: connecting failed: .*PARLEY_ALLOW_PRIVATE_UPSTREAMS/);
});

test('a release whose server fails says which one, once', async () => {
  const config = completeReleaseConfig({ mcp_servers: [{ name: 'crm', url: await deadUrl() }] });
  const upstreams = {
    checkUrl: async () => undefined,
    credentialFor: async () => undefined,
    hasOperatorsModelKey: () => false,
    listServerTools: (server: McpServerConfig, credential: string | undefined) => listServerTools(server, credential, fetch),
  };
  assert.deepEqual(await pinRelease(1, config, upstreams, signal), {
    state: 'failed',
    error: 'mcp_servers: MCP server crm: connecting failed: the server cannot be reached (ECONNREFUSED)',
  });
});

test('a release in which two tools would have one name says which, because model providers refuse it', async () => {
  const config = completeReleaseConfig({ mcp_servers: ['a', 'a_'].map((name) => ({ name, url: 'https://mcp.example/' })) });
  const tool = { description: '', input_schema: {}, read_only: true, repeatable: true };
  const upstreams = {
    checkUrl: async () => undefined,
    credentialFor: async () => undefined,
    hasOperatorsModelKey: () => false,
    listServerTools: async ({ name: server }: McpServerConfig) => [{ ...tool, server, name: server === 'a' ? '_find' : 'find' }],
  };
  assert.deepEqual(await pinRelease(1, config, upstreams, signal), {
    state: 'failed',
    error: 'mcp_servers: the tools "_find" of a and "find" of a_ would both be named a___find: give one of the servers another name',
  });
});

test('pinned tools become tools: named, and guarded unless read-only', async () => {
  const server = await start();
  const connections = connect();
  const pinned = await listServerTools(target(server).server, token, fetch);
  const tools = createMcpTools(pinned, (_server, tool, input, abort) => connections.callTool('ses_1', target(server), tool, input, abort));
  const [find, rename, , fail] = tools;
  assert.equal(find?.name, 'crm__find');
  assert.deepEqual(
    tools.map((tool) => tool.repeatable),
    [true, true, false, false, false],
  );
  assert.equal(find.guards({}), false);
  assert.equal(rename?.guards({}), true);
  assert.deepEqual(
    [rename.problem(null), rename.problem({}), rename.problem('text')],
    [undefined, undefined, 'The input must be an object'],
  );
  assert.equal(rename.subject({ to: 'Ada' }), '{"to":"Ada"}');
  assert.match(rename.prompt({ to: 'Ada' }), /rename of crm with {"to":"Ada"}/);
  const environment = { workspace: new MemoryWorkspace(), signal };
  assert.deepEqual(await find.run({ name: 'Ada' }, environment), { output: 'found Ada', isError: false });
  assert.equal((await find.run('text', environment)).isError, true);
  assert.deepEqual(await fail?.run({}, environment), { output: 'it went wrong', isError: true });
});

test("an object's schema without properties is shown to the model with none, because OpenAI refuses it otherwise", () => {
  const shown = (input_schema: Record<string, unknown>) => {
    const pinned = { server: 'crm', name: 'list', description: '', input_schema, read_only: true, repeatable: true };
    return createMcpTools([pinned], async () => ({ output: '', isError: false }))[0]?.inputSchema;
  };
  assert.deepEqual(shown({ type: 'object', additionalProperties: false }), {
    type: 'object',
    additionalProperties: false,
    properties: {},
  });
  for (const schema of [{ type: 'object', properties: { name: {} } }, {}]) assert.deepEqual(shown(schema), schema);
});

test('a name that providers would refuse is made fit, and stays unique', () => {
  assert.equal(mcpToolName({ server: 'crm', name: 'find' }), 'crm__find');
  const names = ['a.b', 'a b', `x${'y'.repeat(80)}`, `x${'y'.repeat(81)}`].map((name) => mcpToolName({ server: 'crm', name }));
  assert.equal(new Set(names).size, 4);
  for (const name of names) assert.match(name, /^[A-Za-z0-9_-]{1,64}$/);
});

async function deadUrl(): Promise<string> {
  const server = await startMcpServer(token);
  server.close();
  return server.url;
}

function isServiceError(kind: string) {
  return (error: unknown) => error instanceof ServiceError && error.kind === kind;
}

function messageIs(message: string) {
  return (error: unknown) => error instanceof Error && error.message === message;
}
