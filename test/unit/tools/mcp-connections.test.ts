import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { describe, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { createGuard } from '../../../src/destination/guard.ts';
import { createMcpConnections, type McpConnections } from '../../../src/instances/mcp-connections.ts';
import { listServerTools } from '../../../src/instances/mcp-tools.ts';
import { closeAfterTest } from '../../support/close-after-test.ts';
import { serveLocally } from '../../support/local-server.ts';
import { startMcpServer, type TestMcpServer } from '../../support/mcp-server.ts';
import { until } from '../../support/until.ts';

const token = 'secret-token/with+signs"and quotes';
const fetch = createGuard({ allowPrivate: true }).fetch;
const signal = new AbortController().signal;

async function start(kind: 'stateless' | 'sessions' = 'stateless'): Promise<TestMcpServer> {
  return closeAfterTest(await startMcpServer(token, kind));
}

function connect(options: { maxConnections?: number } = {}): McpConnections {
  const connections = createMcpConnections({ fetch, ...options });
  closeAfterTest(connections);
  return connections;
}

function target(server: TestMcpServer, credential: string | undefined = token) {
  return { server: { name: 'crm', url: server.url, credential: 'crm_token' }, credential };
}

test('each session has a connection of its own, made by its first request and used again', async () => {
  const server = await start('sessions');
  const connections = connect();
  for (const session of ['ses_1', 'ses_2', 'ses_1', 'ses_2'])
    await connections.callTool(session, target(server), 'find', { name: 'x' }, signal);
  assert.equal(server.requests.filter((request) => request === 'POST initialize').length, 2);
  assert.equal(server.sessions.size, 2);
});

test('requests that come while a session connects share its connection', async () => {
  const server = await start('sessions');
  const connections = connect();
  const answers = await Promise.all(
    Array.from({ length: 5 }, (_, index) => connections.callTool('ses_1', target(server), 'find', { name: String(index) }, signal)),
  );
  assert.deepEqual(
    answers.map((answer) => answer.output),
    ['found 0', 'found 1', 'found 2', 'found 3', 'found 4'],
  );
  assert.equal(server.sessions.size, 1);
});

test('a changed credential opens a new connection', async () => {
  const server = await start('sessions');
  const connections = connect();
  const refused = await connections.callTool('ses_1', target(server, 'an old one'), 'find', { name: 'x' }, signal);
  assert.deepEqual(refused, { output: 'MCP server crm: the server refused the credential (HTTP 401)', isError: true });
  assert.equal((await connections.callTool('ses_1', target(server), 'find', { name: 'x' }, signal)).output, 'found x');
  assert.deepEqual(await connections.callTool('ses_1', target(server, 'a newer one'), 'find', { name: 'x' }, signal), refused);
});

test('a connection that has to make room is closed once those who wait on it have their answers', async () => {
  const server = await start('sessions');
  const connections = connect({ maxConnections: 1 });
  const sessions = ['ses_1', 'ses_2', 'ses_3'];
  const answers = await Promise.all(
    sessions.map((session) => connections.callTool(session, target(server), 'find', { name: session }, signal)),
  );
  assert.deepEqual(
    answers.map((answer) => answer.output),
    sessions.map((session) => `found ${session}`),
  );
  await untilSessions(server, 1);
});

test('a call that is aborted leaves the connection to the next', async () => {
  const server = await start('sessions');
  const connections = connect();
  const aborting = new AbortController();
  const call = connections.callTool('ses_1', target(server), 'hang', {}, aborting.signal);
  await untilSessions(server, 1);
  aborting.abort(new Error('interrupted'));
  await assert.rejects(call, /interrupted/);
  await connections.callTool('ses_1', target(server), 'find', { name: 'x' }, signal);
  assert.equal(server.requests.filter((request) => request === 'POST initialize').length, 1);
});

test('closing, stopping a session and too many connections end the sessions at the server', async () => {
  const server = await start('sessions');
  const connections = connect({ maxConnections: 2 });
  for (const session of ['ses_1', 'ses_2', 'ses_3']) await connections.callTool(session, target(server), 'find', { name: 'x' }, signal);
  await untilSessions(server, 2);
  connections.closeSession('ses_2');
  await untilSessions(server, 1);
  connections.close();
  await untilSessions(server, 0);
});

async function untilSessions(server: TestMcpServer, count: number): Promise<void> {
  const deadline = Date.now() + 2_000;
  while (server.sessions.size !== count && Date.now() < deadline) await new Promise(setImmediate);
  assert.equal(server.sessions.size, count);
}

test('a server that does not answer a goodbye holds nobody up', { timeout: 30_000 }, async () => {
  const server = await start('sessions');
  const isCutOff: boolean[] = [];
  const unanswered: typeof fetch = (url, init) => {
    if (init?.method !== 'DELETE') return fetch(url, init);
    return new Promise((_resolve, reject) => {
      init.signal?.addEventListener('abort', () => {
        isCutOff.push(true);
        reject(init.signal?.reason);
      });
    });
  };
  assert.equal((await listServerTools(target(server).server, token, unanswered)).length, 5);
  assert.deepEqual(isCutOff, [true]);
});

test('a connection that is closed while it opens is given up', async () => {
  const cut: unknown[] = [];
  const silent: typeof fetch = (_url, init) =>
    new Promise((_resolve, reject) => {
      init?.signal?.addEventListener('abort', () => {
        cut.push(init.signal?.reason);
        reject(init.signal?.reason);
      });
    });
  const connections = createMcpConnections({ fetch: silent });
  const controller = new AbortController();
  const silentTarget = { server: { name: 'crm', url: 'https://crm.example.com/mcp' }, credential: undefined };
  const call = connections.callTool('ses_1', silentTarget, 'find', {}, controller.signal);
  controller.abort(new Error('stopped'));
  await assert.rejects(call, /stopped/);
  await assert.rejects(connections.callTool('ses_1', silentTarget, 'find', {}, controller.signal), /stopped/);
  assert.equal(cut.length, 0, 'the next call may still use it');
  connections.close();
  await until(async () => cut.length === 1, 5_000);
});

// Together, because each waits for the time to run out that a server has for a notice.
describe('a server that takes no notice', { concurrency: true }, () => {
  test('keeps no socket by leaving open what was answered, cancelled or only told to it', { timeout: 60_000 }, async () => {
    const open = new Map<ServerResponse, string>();
    const server = await serveLocally((incoming, outgoing) => {
      void incoming.toArray().then((chunks) => {
        const { id, method, params } = JSON.parse(Buffer.concat(chunks).toString() || '{}');
        const results: Record<string, unknown> = {
          initialize: { protocolVersion: '2025-06-18', capabilities: {}, serverInfo: { name: 'crm', version: '1' } },
          'tools/call': { content: [{ type: 'text', text: 'found' }] },
        };
        const said = method in results ? { result: results[method] } : { error: { code: -32_601, message: 'Method not found' } };
        open.set(outgoing, params?.name ?? method);
        outgoing.on('close', () => open.delete(outgoing));
        // Neither a stream nor a notice is ever ended.
        if (method === 'notifications/initialized') outgoing.writeHead(202).end();
        else if (id !== undefined) outgoing.writeHead(200, { 'content-type': 'text/event-stream' }).write(': welcome\n\n');
        if (id !== undefined && params?.name !== 'hang') outgoing.write(`data: ${JSON.stringify({ jsonrpc: '2.0', id, ...said })}\n\n`);
      });
    });
    closeAfterTest(server);
    const connections = connect();
    const crm = { server: { name: 'crm', url: `${server.origin}/mcp` }, credential: undefined };
    for (let call = 0; call < 3; call += 1)
      assert.deepEqual(await connections.callTool('ses_1', crm, 'find', {}, signal), { output: 'found', isError: false });
    await until(async () => open.size === 0);
    const aborting = new AbortController();
    const call = connections.callTool('ses_1', crm, 'hang', {}, aborting.signal);
    await until(async () => open.size === 1);
    aborting.abort(new Error('interrupted'));
    await assert.rejects(call, /interrupted/);
    await until(async () => isDeepStrictEqual([...open.values()], ['notifications/cancelled']));
    await until(async () => open.size === 0, 30_000);
  });

  test('is not waited for without end when it is told of a new connection', { timeout: 60_000 }, async () => {
    const server = await start('sessions');
    const deaf: typeof fetch = (url, init) => {
      if (!String(init?.body).includes('notifications/initialized')) return fetch(url, init);
      return new Promise((_resolve, reject) => init?.signal?.addEventListener('abort', () => reject(init.signal?.reason)));
    };
    const connections = createMcpConnections({ fetch: deaf });
    closeAfterTest(connections);
    const answer = await connections.callTool('ses_1', target(server), 'find', { name: 'x' }, signal);
    assert.deepEqual(answer, { output: 'MCP server crm: the server did not answer in time', isError: true });
  });
});
