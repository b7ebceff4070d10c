import assert from 'node:assert/strict';
import type { RequestListener } from 'node:http';
import { after, test } from 'node:test';
import fc from 'fast-check';
import { createDestinations } from '../../../src/destination/destinations.ts';
import { createGuard } from '../../../src/destination/guard.ts';
import { decidePermission } from '../../../src/harness/permissions.ts';
import { maxToolOutputCharacters, recordedOutput, type Tool, type ToolOutcome } from '../../../src/harness/tool.ts';
import { createShellPool } from '../../../src/harness/tools/bash-pool.ts';
import { createTools } from '../../../src/harness/tools/create-tools.ts';
import { createFetchTool } from '../../../src/harness/tools/fetch.ts';
import { filesTool } from '../../../src/harness/tools/files.ts';
import { closeAfterTest } from '../../support/close-after-test.ts';
import { type LocalServer, serveLocally } from '../../support/local-server.ts';
import { MemoryWorkspace } from '../../support/memory-workspace.ts';

const shell = createShellPool();
after(() => shell.close());
const signal = new AbortController().signal;
const lenient = createGuard({ allowPrivate: true, maxRedirects: 5 }).fetch;

async function serve(listener: RequestListener): Promise<LocalServer> {
  return closeAfterTest(await serveLocally(listener));
}

/** With the output as the loop keeps it. */
async function run(tool: Tool, input: unknown, workspace = new MemoryWorkspace()): Promise<ToolOutcome> {
  const outcome = await tool.run(input, { workspace, signal });
  workspace.apply(outcome);
  return { ...outcome, output: recordedOutput(outcome.output) };
}

test('a sub-agent gets the tools it names, and handoff when there is someone to hand over to', () => {
  const common = { agent: 'main', shell, lineId: 1, fetch: lenient };
  const names = (tools: Tool[]) => tools.map((tool) => tool.name);
  assert.deepEqual(names(createTools({ ...common, names: ['bash', 'files', 'fetch'], agents: ['main'] })), ['bash', 'files', 'fetch']);
  assert.deepEqual(names(createTools({ ...common, names: ['files', 'files'], agents: ['main', 'billing'] })), ['files', 'handoff']);
  assert.deepEqual(names(createTools({ ...common, names: [], agents: ['main'] })), []);
});

test('handoff names the others, hands over, and refuses a name it does not know', async () => {
  const [handoff] = createTools({ names: [], agent: 'main', agents: ['main', 'billing', 'legal'], shell, lineId: 1, fetch: lenient });
  assert(handoff);
  assert.match(handoff.description, /billing, legal/);
  assert.match(JSON.stringify(handoff.inputSchema), /"enum":\["billing","legal"\]/);
  assert.equal(handoff.guards({ agent: 'billing' }), false);
  assert.equal((await run(handoff, { agent: 'billing' })).handoff, 'billing');
  for (const agent of ['main', 'nobody', '', undefined]) {
    const outcome = await run(handoff, { agent });
    assert.equal(outcome.isError, true);
    assert.equal(outcome.handoff, undefined);
    assert.equal(handoff.problem({ agent }), outcome.output, 'and nobody is asked about it');
  }
});

test('fetch shows status, headers and body, and sends what it was given', async () => {
  const shown = {
    'content-type': 'text/plain; charset=iso-8859-1',
    'content-length': '12',
    location: '/new',
    'last-modified': 'Thu, 01 Jan 2026 00:00:00 GMT',
    etag: '"1"',
    'retry-after': '7',
    'www-authenticate': 'Basic',
  };
  const server = await serve((request, response) => {
    response.writeHead(201, { ...shown, 'x-hidden': 'yes' });
    request.resume().on('end', () => response.end(Buffer.from(`${request.method} ${request.headers['x-own']} für`, 'latin1')));
  });
  const tool = createFetchTool({ fetch: lenient });
  const outcome = await run(tool, { url: server.origin, method: 'post', headers: { 'X-Own': 'own' }, body: 'hello' });
  const head = Object.entries(shown).map(([name, value]) => `${name}: ${value}\n`);
  assert.equal(outcome.output, `HTTP 201\n${head.join('')}\nPOST own für`);
  assert.equal(outcome.isError, false);
  assert.equal(tool.subject({ url: 'https://EXAMPLE.com/a/../b' }), 'https://example.com/b');
  assert.equal(tool.subject({ url: 'https://example.com.:8443/b.' }), 'https://example.com:8443/b.');
  assert.equal(tool.guards({}), true);
});

test('a host with a megabyte of dots is refused within a moment', async () => {
  const tool = createFetchTool({ fetch: createGuard({ allowPrivate: false }).fetch });
  const input = { url: `https://a${'.'.repeat(1_000_000)}b/` };
  const begun = performance.now();
  assert.equal(tool.subject(input), input.url);
  assert.equal((await run(tool, input)).isError, true);
  const took = performance.now() - begun;
  assert(took < 1_000, `${took} ms`);
});

test('fetch: an HTTP error is an error, a redirect is followed, binary is not shown', async () => {
  const server = await serve((request, response) => {
    if (request.url === '/moved') return response.writeHead(302, { location: '/there' }).end();
    if (request.url === '/there') return response.end('arrived');
    if (request.url === '/binary') return response.end(Buffer.from([1, 0, 2]));
    if (request.url === '/bad') return response.writeHead(400).end();
    if (request.url === '/quoted')
      return response.setHeader('content-type', 'text/plain; charset="iso-8859-1"').end(Buffer.from('für', 'latin1'));
    if (request.url === '/unknown') return response.setHeader('content-type', 'text/plain; charset=klingon').end('für');
    response.writeHead(404).end('nothing');
  });
  const tool = createFetchTool({ fetch: lenient });
  assert.deepEqual(await run(tool, { url: `${server.origin}/none` }), { output: 'HTTP 404\n\nnothing', isError: true });
  assert.equal((await run(tool, { url: `${server.origin}/bad` })).isError, true);
  assert.match((await run(tool, { url: `${server.origin}/moved` })).output, /arrived/);
  for (const path of ['/quoted', '/unknown']) assert.match((await run(tool, { url: server.origin + path })).output, /\n\nfür$/);
  assert.match((await run(tool, { url: `${server.origin}/binary` })).output, /\[binary content of 3 bytes, not shown\]/);
});

test('fetch reads one mebibyte at most, shows less, and says both', async () => {
  let sent = 0;
  const server = await serve((_request, response) => {
    const more = () => {
      sent += 65_536;
      if (response.write('x'.repeat(65_536))) setImmediate(more);
      else response.once('drain', more);
    };
    more();
    response.on('close', () => response.removeAllListeners('drain'));
  });
  const { output } = await run(createFetchTool({ fetch: lenient }), { url: server.origin });
  assert(output.length < maxToolOutputCharacters + 200);
  assert.match(output, /output truncated/);
  assert(sent < 20 * 1024 * 1024);
});

test('fetch ends after its time, and at once when aborted', async () => {
  const server = await serve((request, response) => {
    if (request.url === '/slow') response.write('first');
  });
  const hasty = createFetchTool({ fetch: lenient, timeoutMs: 100 });
  for (const path of ['/never', '/slow']) {
    assert.deepEqual(await run(hasty, { url: server.origin + path }), { output: 'No complete answer within 0.1 s', isError: true });
  }
  const aborting = new AbortController();
  const reason = new Error('interrupted');
  const call = createFetchTool({ fetch: lenient }).run(
    { url: `${server.origin}/slow` },
    { workspace: new MemoryWorkspace(), signal: aborting.signal },
  );
  setTimeout(() => aborting.abort(reason), 50);
  await assert.rejects(call, reason);
});

test('fetch refuses what is not public, bad input and headers of the connection, as an outcome', async () => {
  const settings = { PARLEY_WEBHOOK_ALLOW_PRIVATE: true, PARLEY_ALLOW_PRIVATE_UPSTREAMS: false, PARLEY_GATEWAY_PEERS: {} };
  const tool = createFetchTool({ fetch: createDestinations(settings).web.fetch });
  const server = await serve((_request, response) => response.end('secret'));
  for (const input of [
    { url: server.origin },
    { url: `https://127.0.0.1:${server.port}/` },
    { url: 'http://169.254.169.254/latest' },
    { url: 'not a url' },
    {},
    null,
    { url: 'https://example.com/', method: 'BREW' },
    { url: 'https://example.com/', body: 'x' },
    { url: 'https://example.com/', headers: { Host: 'internal' } },
    { url: 'https://example.com/', headers: { 'bad name': 'x' } },
    { url: 'https://example.com/', headers: { 'x-a': 'a\r\nb: c' } },
  ]) {
    const outcome = await run(tool, input);
    assert.equal(outcome.isError, true, JSON.stringify(input));
  }
  const open = createFetchTool({ fetch: lenient });
  assert.equal((await run(open, { url: server.origin, method: 'HEAD', body: 'x' })).output, 'A HEAD request has no body');
  const ofConnection =
    'Connection Content-Length Transfer-Encoding Upgrade TE Trailer Expect Keep-Alive Proxy-Authorization sec-fetch-site';
  for (const name of ofConnection.split(' '))
    assert.equal((await run(open, { url: server.origin, headers: { [name]: '1' } })).output, `The header ${name} cannot be set`);
  for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
    assert.equal(open.problem({ url: server.origin, method }), undefined);
  assert.equal(server.connections(), 0);
});

test('each kind of use has its own setting', async () => {
  const settings = { PARLEY_WEBHOOK_ALLOW_PRIVATE: true, PARLEY_ALLOW_PRIVATE_UPSTREAMS: false, PARLEY_GATEWAY_PEERS: {} };
  const first = createDestinations(settings);
  await first.webhooks.check('http://127.0.0.1/');
  await first.gateways.check('http://127.0.0.1/');
  await assert.rejects(first.upstreams.check('http://127.0.0.1/'), /PARLEY_ALLOW_PRIVATE_UPSTREAMS/);
  await assert.rejects(first.web.check('http://127.0.0.1/'));
  const second = createDestinations({
    PARLEY_WEBHOOK_ALLOW_PRIVATE: false,
    PARLEY_ALLOW_PRIVATE_UPSTREAMS: true,
    PARLEY_GATEWAY_PEERS: { 'http://peer.internal:9999': 'key' },
  });
  await second.upstreams.check('http://127.0.0.1:11434/v1');
  await assert.rejects(second.web.check('http://127.0.0.1:11434/v1'), 'what a model asks for stays public');
  await second.gateways.check('http://peer.internal:9999/v1/gateway/deliveries');
  await assert.rejects(second.webhooks.check('http://peer.internal:9999/'), /PARLEY_WEBHOOK_ALLOW_PRIVATE/);
  await assert.rejects(second.gateways.check('http://other.internal:9999/'), /PARLEY_WEBHOOK_ALLOW_PRIVATE/);
});

test('a rule is for every tool and action that its patterns match, and a star may stand for nothing', () => {
  const rule = (tool: string, match: string) => {
    const decided = decidePermission(
      filesTool,
      { operation: 'read', path: 'a/b' },
      [{ tool, match, action: 'deny' }],
      new Set(),
      'interactive',
    );
    return decided.action;
  };
  const table = {
    'fi*|a/b': 'deny',
    '*|a/b**': 'deny',
    'f?les|a*b': 'deny',
    'file|a/b': 'allow',
    'files|a/b?': 'allow',
    'files|a': 'allow',
  };
  for (const [patterns, action] of Object.entries(table)) {
    const [tool = '', match = ''] = patterns.split('|');
    assert.equal(rule(tool, match), action, patterns);
  }
});

test('a pattern matches what the regular expression of its stars and question marks does', () => {
  const [bash = assert.fail()] = createTools({ names: ['bash'], agent: 'main', agents: ['main'], shell, lineId: 1, fetch: lenient });
  const of = (...characters: string[]) => fc.string({ unit: fc.constantFrom(...characters), maxLength: 8 });
  fc.assert(
    fc.property(of('a', 'b'), of('a', 'b', '*', '?'), (command, match) => {
      const expected = new RegExp(`^${match.replaceAll('*', '.*').replaceAll('?', '.')}$`).test(command);
      const rules = [{ tool: '*', match, action: 'deny' as const }];
      const { action, pattern } = decidePermission(bash, { command }, rules, new Set(), 'autonomous');
      assert.deepEqual([action, pattern], expected ? ['deny', match] : ['allow', '*']);
    }),
    { numRuns: 1_000 },
  );
});

test('a call that takes too long to be compared with the rules is refused, whatever they say', () => {
  const [bash = assert.fail()] = createTools({ names: ['bash'], agent: 'main', agents: ['main'], shell, lineId: 1, fetch: lenient });
  const decide = (rules: number, match: string, length: number) => {
    const given = Array.from({ length: rules }, () => ({ tool: 'ba*', match, action: 'ask' as const }));
    return decidePermission(bash, { command: 'a'.repeat(length) }, given, new Set(), 'autonomous').action;
  };
  assert.equal(decide(1, `*${'a'.repeat(1_990)}b`, 190_000), 'deny');
  assert.equal(decide(500, `${'a'.repeat(1_990)}*b`, 2_000), 'allow');
  assert.equal(decide(50, '*a*', 190_000), 'allow');
});
