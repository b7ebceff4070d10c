// Clients that hold a connection without using it, byte by byte over bare sockets.
// One engine: what this tries is on the client's, the model's or a tool's side of the wire.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { defaultRoom } from '../../src/load/waiting-room.ts';
import { startApp } from '../support/app.ts';
import { until } from '../support/until.ts';

const app = await startApp({ after }, { settings: { PARLEY_REQUEST_TIMEOUT_MS: '1200', PARLEY_KEEP_ALIVE_MS: '300' } });
const { port } = new URL(await app.listen());
const head = `POST /v1/sessions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${app.apiKey}\r\nContent-Type: application/json\r\n`;

interface Held {
  socket: Socket;
  text(): string;
  /** Milliseconds from the connecting until the server closed it. */
  closed: Promise<number>;
}

async function hold(): Promise<Held> {
  const socket = connect(Number(port), '127.0.0.1');
  const begun = performance.now();
  let text = '';
  socket.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
  });
  socket.on('error', () => {});
  const closed = once(socket, 'close').then(() => performance.now() - begun);
  await once(socket, 'connect');
  return { socket, text: () => text, closed };
}

/** One byte every 50 ms, for as long as the server listens. */
async function trickle({ socket }: Held, bytes: string): Promise<void> {
  for (const byte of bytes) {
    if (socket.destroyed || !socket.writable) return;
    socket.write(byte);
    await sleep(50);
  }
}

async function assertTimedOut(held: Held, least: number): Promise<void> {
  const ms = await held.closed;
  assert.ok(ms >= least && ms < 4_000, `closed after ${ms} ms`);
  const [top = '', body = ''] = held.text().split('\r\n\r\n');
  assert.match(top, /^HTTP\/1\.1 408 Request Timeout\r\n/);
  assert.match(top, /x-request-id: \S+/);
  assert.match(top, /connection: close/);
  assert.deepEqual(JSON.parse(body), { detail: 'The request did not arrive in time.' });
}

test('headers that trickle in are 408 after a quarter of the time', async () => {
  const held = await hold();
  await trickle(held, `${head}X-Slow: ${'a'.repeat(1_000)}`);
  await assertTimedOut(held, 250);
});

test('a connection that says nothing at all is closed likewise', async () => {
  await assertTimedOut(await hold(), 250);
});

test('a body that trickles in is 408, and nothing of it was done', async () => {
  const count = async () => Number((await app.context.database.db.selectFrom('sessions').select('id').execute()).length);
  const before = await count();
  const held = await hold();
  held.socket.write(`${head}Content-Length: 1000\r\n\r\n`);
  await trickle(held, `{"metadata":{"a":"${'b'.repeat(900)}`);
  await assertTimedOut(held, 1_000);
  assert.equal(await count(), before);
});

test('bodies that do not arrive keep nobody else waiting', async () => {
  const held = await Promise.all(Array.from({ length: defaultRoom.places + 8 }, hold));
  for (const { socket } of held) socket.write(`${head}Expect: 100-continue\r\nContent-Length: 1000\r\n\r\n`);
  await until(async () => held.every(({ text }) => text().includes('100 Continue')));
  const begun = performance.now();
  assert.equal((await app.request('GET', '/api/organization')).status, 200);
  const ms = performance.now() - begun;
  assert.ok(ms < 600, `answered after ${ms} ms`);
  for (const { socket } of held) socket.destroy();
});

test('a connection that is kept for nothing is closed; one that is used is not', async () => {
  const idle = await hold();
  const used = await hold();
  const request = `GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n`;
  idle.socket.write(request);
  for (let round = 0; round < 10; round += 1) {
    used.socket.write(request);
    await sleep(200);
  }
  assert.equal(used.text().split('HTTP/1.1 200').length - 1, 10, 'ten answers on one connection');
  assert.ok((await idle.closed) < 3_000);
  used.socket.destroy();
});

test('many slow ones at once keep nobody else from being served, and a stream may last longer than any of it', async () => {
  const session = (await app.request('POST', '/v1/sessions', {})).body;
  const slow = await Promise.all(Array.from({ length: 200 }, hold));
  for (const [index, { socket }] of slow.entries()) socket.write(index % 2 === 0 ? 'GET / HT' : `${head}Content-Length: 10\r\n\r\n{`);
  const stream = await hold();
  stream.socket.write(
    `GET /demo/assistant/v1/managed-agents/sessions/${session.id}/events/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${app.apiKey}\r\n\r\n`,
  );
  const begun = performance.now();
  const answer = await fetch(`http://127.0.0.1:${port}/v1/sessions/${session.id}`, { headers: { authorization: `Bearer ${app.apiKey}` } });
  assert.equal(answer.status, 200, await answer.text());
  assert.ok(performance.now() - begun < 3_000);
  for (const held of slow) assert.ok((await held.closed) < 5_000);
  await app.request('POST', `/v1/sessions/${session.id}/messages`, { text: '/say still here' });
  await until(async () => stream.text().includes('session.status_idle'));
  assert.match(stream.text(), /still here/);
  stream.socket.destroy();
});
