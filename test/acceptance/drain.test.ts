// Stopping: what a signal does to requests and to turns that run.
// One engine: this is about how a process begins and ends.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { Agent, type IncomingMessage, request } from 'node:http';
import { connect, createServer } from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startDatabaseProxy } from '../support/database-proxy.ts';
import { createDatabase, engine } from '../support/engine.ts';
import { main, type ServerProcess, startServer } from '../support/server-process.ts';
import { until } from '../support/until.ts';

async function post(server: ServerProcess, path: string, body: unknown): Promise<Response> {
  const headers = { authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json' };
  return fetch(`${server.url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
}

async function transcript(server: ServerProcess, session: string): Promise<{ role: string; text: string }[]> {
  const headers = { authorization: `Bearer ${server.apiKey}` };
  const response = await fetch(`${server.url}/demo/assistant/v1/sessions/${session}/messages`, { headers });
  assert.equal(response.status, 200);
  const { messages } = (await response.json()) as { messages: { role: string; text: string }[] };
  return messages;
}

/** Begins a streamed turn and resolves when its first words are there; `rest` reads to the end of the stream. */
async function beginTurn(server: ServerProcess, session: string, text: string): Promise<{ rest: Promise<string> }> {
  assert.equal((await post(server, '/demo/assistant/v1/sessions', { session_id: session })).status, 200);
  const response = await post(server, `/demo/assistant/v1/sessions/${session}/messages`, { text, stream: true });
  assert.equal(response.status, 200);
  assert.ok(response.body);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let received = '';
  while (!received.includes('event: text')) {
    const { value, done } = await reader.read();
    assert.ok(!done, received);
    received += value;
  }
  const readRest = async () => {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return received;
      received += value;
    }
  };
  return { rest: readRest() };
}

test('SIGTERM lets a running turn finish, takes no new one, and turns readiness off', async (t) => {
  const server = await startServer(t);
  const { rest } = await beginTurn(server, 'finishing', '/words 40\n/delay 50');
  process.kill(server.pid, 'SIGTERM');
  while ((await fetch(`${server.url}/readyz`)).status === 200);
  const ready = await fetch(`${server.url}/readyz`);
  assert.equal(ready.status, 503);
  assert.match(ready.headers.get('retry-after') ?? '', /^\d+$/);
  assert.equal((await fetch(`${server.url}/healthz`)).status, 200);
  const refused = await post(server, '/demo/assistant/v1/sessions/finishing/messages', { text: 'one more' });
  assert.equal(refused.status, 503);
  assert.match(refused.headers.get('retry-after') ?? '', /^\d+$/);
  assert.equal(typeof ((await refused.json()) as { detail: unknown }).detail, 'string');

  const stream = await rest;
  assert.match(stream, /event: done\n/);
  assert.equal(await server.stop(), 0);
  assert.doesNotMatch(server.output(), /"level":[56]0/);
});

test('a turn that outlasts the drain is handed over: the next start brings it to its end', async (t) => {
  const server = await startServer(t, { settings: { PARLEY_DRAIN_SECONDS: '1' } });
  const { rest } = await beginTurn(server, 'handed-over', '/words 30\n/delay 100');
  const begun = performance.now();
  const code = server.stop();
  assert.doesNotMatch(await rest, /event: done\n/);
  assert.equal(await code, 0);
  const elapsed = performance.now() - begun;
  assert.ok(elapsed > 900 && elapsed < 5_000, `stopped after ${elapsed} ms`);
  await server.start();
  await until(async () => (await transcript(server, 'handed-over')).length >= 2, 30_000);
  assert.deepEqual(
    (await transcript(server, 'handed-over')).map(({ role, text }) => [role, text.split(' ').length > 20]),
    [
      ['user', false],
      ['assistant', true],
    ],
  );
});

test('a request on a connection that was kept open is answered as the server stops, and told that it closes', async (t) => {
  const server = await startServer(t);
  assert.equal((await post(server, '/v1/sessions', { session_id: 'kept' })).status, 200);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  t.after(() => agent.destroy());
  const ask = async (method: string, path: string) => {
    const headers = { authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json' };
    const asked = request(`${server.url}${path}`, { agent, method, headers }).end(method === 'POST' ? '{"text":"hello"}' : undefined);
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    await once(response.resume(), 'end');
    return [asked.reusedSocket, response.statusCode, response.headers.connection];
  };
  assert.deepEqual(await ask('POST', '/v1/sessions/kept/messages'), [false, 200, 'keep-alive']);
  const exited = server.stop();
  await sleep(200);
  assert.deepEqual(await ask('GET', '/healthz'), [true, 200, 'close']);
  assert.deepEqual(await ask('POST', '/v1/sessions/kept/messages'), [false, 503, 'close'], 'also with a refusal');
  assert.equal(await exited, 0);
});

test('a terminal that is closed ends a drain that is under way', async (t) => {
  const server = await startServer(t);
  const { rest } = await beginTurn(server, 'hurried', '/words 100\n/delay 100');
  process.kill(server.pid, 'SIGTERM');
  await until(async () => (await fetch(`${server.url}/readyz`)).status === 503);
  assert.equal(await server.stop('SIGHUP'), 0);
  assert.doesNotMatch(await rest, /event: done\n/);
});

test('Ctrl-C stops at once, also in a drain, with unary calls under way, a connection that asks nothing, and a second Ctrl-C', async (t) => {
  const server = await startServer(t);
  assert.equal((await post(server, '/v1/sessions', { session_id: 'cut' })).status, 200);
  const call = post(server, '/v1/sessions/cut/messages', { text: '/words 100\n/delay 100' });
  const unkept = post(server, '/demo/assistant/v1/responses', { input: '/words 100\n/delay 100', store: false });
  // A turn runs once its message counts.
  await until(async () => {
    const headers = { authorization: `Bearer ${server.apiKey}` };
    const state = await fetch(`${server.url}/demo/assistant/v1/sessions`, { headers });
    const { sessions } = (await state.json()) as { sessions: { message_count: number }[] };
    return sessions.filter(({ message_count }) => message_count > 0).length === 2;
  });
  // As browsers and balancers do: opened ahead, and nothing asked yet.
  const ahead = connect(Number(new URL(server.url).port), '127.0.0.1');
  await once(ahead, 'connect');
  const begun = performance.now();
  process.kill(server.pid, 'SIGTERM');
  await until(async () => (await fetch(`${server.url}/readyz`)).status === 503);
  process.kill(server.pid, 'SIGINT');
  assert.equal(await server.stop('SIGINT'), 0);
  assert.ok(performance.now() - begun < 5_000);
  for (const answer of [await call, await unkept]) {
    assert.equal(answer.status, 503);
    assert.match(answer.headers.get('retry-after') ?? '', /^\d+$/);
  }
});

test('servers that do not answer hold up no stop, and a release that waits for one is gone on with', async (t) => {
  let asked = 0;
  const silent = createServer((socket) => {
    asked += 1;
    socket.on('error', () => {}).resume();
  }).listen(0, '127.0.0.1');
  t.after(() => void silent.close());
  await once(silent, 'listening');
  const address = silent.address();
  const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}/mcp`;
  const server = await startServer(t, { settings: { PARLEY_ALLOW_PRIVATE_UPSTREAMS: '1' } });
  const path = '/api/agents/assistant/releases';
  assert.equal((await post(server, path, { mcp_servers: [{ name: 'silent', url }] })).status, 201);
  const state = async () => {
    const response = await fetch(`${server.url}${path}/2`, { headers: { authorization: `Bearer ${server.apiKey}` } });
    return ((await response.json()) as { release: { state: string } }).release.state;
  };
  const trial = post(server, '/dashboard/api/models/test', { provider: 'openai-compatible', name: 'silent', base_url: url });
  await until(async () => asked === 2 && (await state()) === 'materializing');
  const begun = performance.now();
  const stopped = server.stop('SIGINT');
  await assert.rejects(trial, 'nothing of it could be gone on with');
  assert.equal(await stopped, 0);
  assert.ok(performance.now() - begun < 5_000);
  await server.start();
  assert.equal(await state(), 'materializing');
});

test('a stop ends without a database that answers', { skip: engine !== 'postgres' && 'the embedded one always does' }, async (t) => {
  const database = await createDatabase();
  t.after(database.remove);
  const proxy = await startDatabaseProxy(t, database);
  const server = await startServer(t, { database: proxy.database });
  assert.equal((await post(server, '/v1/sessions', {})).status, 200);
  proxy.hold();
  const begun = performance.now();
  assert.equal(await server.stop('SIGINT'), 1);
  assert.ok(performance.now() - begun < 15_000);
  assert.match(server.output(), /"could not close everything in time: ending"/);
});

const noContainer = spawnSync('unshare', ['--pid', '--fork', 'true']).status !== 0 && 'no process can be the first of its own here';
test('the first process of a container ends at a signal while it is still starting', { skip: noContainer }, async (t) => {
  const silent = createServer((socket) => socket.on('error', () => {}));
  silent.listen(0, '127.0.0.1');
  await once(silent, 'listening');
  const connected = once(silent, 'connection');
  const address = silent.address();
  assert.ok(typeof address === 'object' && address !== null);
  const env = { PATH: process.env.PATH, PORT: '0', DATABASE_URL: `postgres://parley@127.0.0.1:${address.port}/parley` };
  const container = spawn('unshare', ['--pid', '--fork', '--kill-child', process.execPath, main], { env, stdio: 'ignore' });
  t.after(() => void container.kill('SIGKILL'));
  const ended = once(container, 'exit');
  const [socket] = await connected;
  t.after(() => {
    socket.destroy();
    silent.close();
  });
  const first = Number(readFileSync(`/proc/${container.pid}/task/${container.pid}/children`, 'utf8'));
  process.kill(first, 'SIGTERM');
  assert.deepEqual(await ended, [143, null]);
});
