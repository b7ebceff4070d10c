// What a server of somebody's release may send, and the rest of the process must not notice.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createMcpConnections } from '../../../src/instances/mcp-connections.ts';
import { listServerTools } from '../../../src/instances/mcp-tools.ts';
import { closeAfterTest } from '../../support/close-after-test.ts';
import { serveLocally } from '../../support/local-server.ts';
import { until } from '../../support/until.ts';

type Answer = { error: { code: number; message: string } } | Record<string, unknown>;

/** A server of the newer kind, or the older, that answers as it is told to; `written` makes the bytes of an answer. */
async function start(
  answer: (method: string, params: { cursor?: string }) => Answer,
  written: (message: string) => { type: string; body: string } = (body) => ({ type: 'application/json', body }),
  isOlder = false,
): Promise<string> {
  const server = await serveLocally((incoming, outgoing) => {
    void incoming.toArray().then((chunks) => {
      const { id, method, params } = JSON.parse(Buffer.concat(chunks).toString() || '{}');
      const welcome = { supportedVersions: ['2026-07-28'], capabilities: { tools: {} } };
      const older = { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 'crm', version: '1' } };
      const first: Record<string, Answer> = isOlder
        ? { 'server/discover': { error: { code: -32_601, message: 'Method not found' } }, initialize: older }
        : { 'server/discover': welcome };
      const said = first[method] ?? answer(method, params ?? {});
      const body = 'error' in said ? said : { result: { resultType: 'complete', ttlMs: 0, cacheScope: 'private', ...said } };
      const message = JSON.stringify({ jsonrpc: '2.0', id, ...body });
      const sent = method === 'tools/call' || incoming.method === 'GET' ? written(message) : { type: 'application/json', body: message };
      outgoing.writeHead(200, { 'content-type': sent.type }).end(sent.body);
    });
  });
  closeAfterTest(server);
  return `${server.origin}/mcp`;
}

async function callTool(url: string): Promise<{ output: string; isError: boolean }> {
  const connections = createMcpConnections({ fetch });
  closeAfterTest(connections);
  return connections.callTool('ses_1', { server: { name: 'crm', url }, credential: undefined }, 'find', {}, new AbortController().signal);
}

test('a pattern in the schema of an output is not tried on the output', async () => {
  const outputSchema = { type: 'object', properties: { a: { type: 'string', pattern: '^(a+)+$' } } };
  let calls = 0;
  const url = await start((method) => {
    if (method === 'tools/list') return { tools: [{ name: 'find', inputSchema: { type: 'object' }, outputSchema }] };
    calls += 1;
    // On this error the client lists the tools, and calls again.
    if (calls === 1) return { error: { code: -32_020, message: 'Header mismatch' } };
    return { content: [{ type: 'text', text: 'found' }], structuredContent: { a: `${'a'.repeat(26)}!` } };
  });
  assert.deepEqual(await callTool(url), { output: 'found', isError: false });
  assert.equal(calls, 2);
});

test('an answer of very many values is refused before each of them is looked at', async () => {
  const url = await start(() => ({ content: new Array(30_000).fill({}) }));
  const began = performance.now();
  const refused = 'MCP server crm: the server sent more than 20000 values in one answer';
  assert.deepEqual(await callTool(url), { output: refused, isError: true });
  assert.ok(performance.now() - began < 2_000);
});

test('an answer of very many messages is refused before each of them is looked at', async () => {
  const found = () => ({ content: [{ type: 'text', text: 'found' }] });
  const inList = (message: string) => ({ type: 'application/json', body: `[${'{"jsonrpc":"2.0","method":"a"},'.repeat(100)}${message}]` });
  assert.match((await callTool(await start(found, inList))).output, /more than 100 messages in one answer$/);
  const inStream = (message: string) => ({ type: 'Text/Event-Stream', body: `${':\n'.repeat(50_000)}data: ${message}\n\n` });
  assert.match((await callTool(await start(found, inStream))).output, /closed the connection before it had answered$/);
});

test('a server that asks for very much is answered a little, and heard', async () => {
  let answered = 0;
  const found = (method?: string) => {
    if (method === undefined) answered += 1;
    return { content: [{ type: 'text', text: 'found' }] };
  };
  const asks = Array.from({ length: 500 }, (_, index) => `data: {"jsonrpc":"2.0","id":${index + 1_000},"method":"ping"}\n\n`).join('');
  const url = await start(found, (message) => ({ type: 'text/event-stream', body: `${asks}data: ${message}\n\n` }), true);
  assert.deepEqual(await callTool(url), { output: 'found', isError: false });
  await until(async () => answered === 100);
});

test('a stream that is broken off again and again is not taken up for ever', async () => {
  let takenUp = 0;
  const found = (method?: string) => {
    if (method === undefined) takenUp += 1;
    return { content: [] };
  };
  const url = await start(found, () => ({ type: 'text/event-stream', body: `id: ${takenUp}\nretry: 0\ndata: \n\n` }), true);
  assert.match((await callTool(url)).output, /closed the connection before it had answered$/);
  assert.equal(takenUp, 100);
});

test('a stream is not taken up so late that nobody waits for it, and no timer set for it', async (t) => {
  const url = await start(
    () => ({ content: [] }),
    () => ({ type: 'text/event-stream', body: 'id: 1\nretry: 86400000\ndata: \n\n' }),
    true,
  );
  const connections = createMcpConnections({ fetch });
  closeAfterTest(connections);
  const timers = t.mock.method(globalThis, 'setTimeout');
  const call = connections.callTool(
    'ses_1',
    { server: { name: 'crm', url }, credential: undefined },
    'find',
    {},
    AbortSignal.timeout(1_000),
  );
  await assert.rejects(call, { name: 'TimeoutError' });
  const delays = timers.mock.calls.map((timer) => Number(timer.arguments[1] ?? 0));
  assert.deepEqual([delays.includes(30_000), delays.includes(86_400_000)], [true, false]);
});

test('the pages of a list count together', async () => {
  const tool = { name: 'find', description: 'x'.repeat(3 * 1024 * 1024), inputSchema: { type: 'object' } };
  const asked: (string | undefined)[] = [];
  const url = await start((_method, { cursor }) => {
    asked.push(cursor);
    return { tools: [tool], nextCursor: String(asked.length) };
  });
  await assert.rejects(listServerTools({ name: 'crm', url }, undefined, fetch), /listing its tools failed: .*more than 8388608 bytes/);
  assert.deepEqual(asked, [undefined, '1', '2']);
});

test('the answers of one connection do not count together, nor does what is only read', async () => {
  const large = { content: [{ type: 'text', text: 'x'.repeat(5 * 1024 * 1024) }], structuredContent: { list: new Array(30_000).fill(1) } };
  const url = await start(() => large);
  const connections = createMcpConnections({ fetch });
  closeAfterTest(connections);
  for (let call = 0; call < 2; call += 1) {
    const target = { server: { name: 'crm', url }, credential: undefined };
    const { output, isError } = await connections.callTool('ses_1', target, 'find', {}, new AbortController().signal);
    assert.deepEqual([output.length, isError], [5 * 1024 * 1024, false], output.slice(0, 100));
  }
});

test('as many tools are pinned as a release may have, with descriptions and schemas that fit', async () => {
  const listed = async (tools: object[]) => listServerTools({ name: 'crm', url: await start(() => ({ tools })) }, undefined, fetch);
  const tools = (count: number) => Array.from({ length: count }, (_, index) => ({ name: `t${index}`, inputSchema: { type: 'object' } }));
  assert.equal((await listed(tools(256))).length, 256);
  await assert.rejects(listed(tools(257)), /listing its tools failed: the server has 257 tools; at most 256 can be used$/);
  const schema = (length: number) => ({ type: 'object', title: 'x'.repeat(length - JSON.stringify({ type: 'object', title: '' }).length) });
  assert.equal((await listed([{ name: 'wide', inputSchema: schema(65_536) }])).length, 1);
  await assert.rejects(
    listed([{ name: 'wide', inputSchema: schema(65_537) }]),
    /the input schema of wide is longer than 65536 characters$/,
  );
  const [described] = await listed([{ name: 'long', description: `${'x'.repeat(7_999)}👋`, inputSchema: { type: 'object' } }]);
  assert.equal(described?.description, `${'x'.repeat(7_999)}\ufffd`, 'cut so that it can be stored');
});
