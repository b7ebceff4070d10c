// Clients that stop reading an answer, or take their time, over bare sockets.
// One engine: what this tries is on the client's side of the wire.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startApp, type TestApp } from '../support/app.ts';
import { until } from '../support/until.ts';

const stallMs = 1_000;

test('a client that stops reading a long plain answer is cut after a while; one that reads slowly gets it whole', async (t) => {
  const app = await startApp(t, { settings: { PARLEY_STREAM_STALL_MS: String(stallMs) } });
  const session = (await app.request('POST', '/v1/sessions', {})).body.id;
  // More than the kernel takes. In JSON each character takes six bytes.
  for (let count = 0; count < 16; count += 1)
    await app.request('POST', `/v1/sessions/${session}/messages`, { text: '\u0001'.repeat(170_000) });
  const path = `/demo/assistant/v1/managed-agents/sessions/${session}`;
  const slow = await ask(t, app, path);
  const stalled = await ask(t, app, path);
  const begun = performance.now();
  const reading = readSlowly(slow);
  // What has not been read hides from the client that its connection was cut.
  await until(async () => (await connectionsOf(app)) === 1);
  const ms = performance.now() - begun;
  assert.ok(ms >= stallMs - 100 && ms < 4 * stallMs, `cut after ${ms} ms`);
  stalled.resume();
  assert.equal((await once(stalled, 'error'))[0].code, 'ECONNRESET');
  const bytes = await reading;
  assert.ok(performance.now() - begun > 3 * stallMs, 'it was slow');
  assert.ok(bytes.length > 16_000_000);
  assert.ok(bytes.subarray(-9).equals(Buffer.from(']}\r\n0\r\n\r\n')));
  assert.match((await app.call('GET', '/metrics', { key: app.operatorKey })).text, /^parley_streams_cut_total 1$/m);
});

test('a client that waits for an answer is not cut, however long that takes', async (t) => {
  const app = await startApp(t, { settings: { PARLEY_STREAM_STALL_MS: '200' } });
  const url = await app.listen();
  const headers = { authorization: `Bearer ${app.apiKey}`, 'content-type': 'application/json' };
  const session = (await app.request('POST', '/v1/sessions', {})).body.id;
  const stream = await ask(t, app, `/demo/assistant/v1/managed-agents/sessions/${session}/events/stream`);
  const begun = performance.now();
  const body = JSON.stringify({ text: '/delay 200\n/words 8' });
  const answer = await fetch(`${url}/v1/sessions/${session}/messages`, { method: 'POST', headers, body });
  assert.equal(answer.status, 200, await answer.text());
  assert.ok(performance.now() - begun > 1_000, 'it took several times as long as a reader may stall');
  let text = '';
  stream
    .setEncoding('utf8')
    .on('data', (chunk: string) => {
      text += chunk;
    })
    .resume();
  await until(async () => text.includes('session.status_idle'));
});

test('a connection between requests is kept as long as is set, and one that never got a request for as long as it may take', async (t) => {
  const settings = { PARLEY_STREAM_STALL_MS: '100', PARLEY_KEEP_ALIVE_MS: '300', PARLEY_REQUEST_TIMEOUT_MS: '4000' };
  const app = await startApp(t, { settings });
  const answered = await ask(t, app, '/healthz');
  const refused = await ask(t, app, '/healthz', 'Expect: nothing\r\n');
  const silent = await open(t, app);
  const [kept, keptToo, waited] = await Promise.all([untilClosed(answered), untilClosed(refused), untilClosed(silent)]);
  // node:http adds a second to what it tells its clients.
  for (const { ms } of [kept, keptToo]) assert.ok(ms > 1_200 && ms < 3_500, `closed after ${ms} ms`);
  assert.match(kept.text, /^HTTP\/1\.1 200 /);
  assert.match(keptToo.text, /^HTTP\/1\.1 417 /);
  assert.match(waited.text, /^HTTP\/1\.1 408 /);
});

async function open(t: TestContext, app: TestApp): Promise<Socket> {
  const { port } = new URL(await app.listen());
  const socket = connect(Number(port), '127.0.0.1');
  t.after(() => socket.destroy());
  await once(socket, 'connect');
  return socket;
}

/** Sends a request and reads nothing of its answer yet. */
async function ask(t: TestContext, app: TestApp, path: string, header = ''): Promise<Socket> {
  const socket = await open(t, app);
  socket.pause().write(`GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${app.apiKey}\r\n${header}\r\n`);
  return socket;
}

/** Reads a chunk now and then, at about 4 MB a second. */
async function readSlowly(socket: Socket): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of socket) {
    chunks.push(chunk);
    await sleep(chunk.length / 4_000);
    if (chunk.subarray(-7).equals(Buffer.from('\r\n0\r\n\r\n'))) break;
  }
  return Buffer.concat(chunks);
}

async function untilClosed(socket: Socket): Promise<{ ms: number; text: string }> {
  const begun = performance.now();
  let text = '';
  socket
    .setEncoding('utf8')
    .on('data', (chunk: string) => {
      text += chunk;
    })
    .resume();
  await once(socket, 'close');
  return { ms: performance.now() - begun, text };
}

function connectionsOf(app: TestApp): Promise<number> {
  return new Promise((resolve, reject) =>
    app.server.server.getConnections((error, count) => (error === null ? resolve(count) : reject(error))),
  );
}
