// Events of many KiB or MiB on their way to readers who take their time.
// One engine: this is about how the log is shown on a wire.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startApp, type TestApp } from '../../support/app.ts';
import { ManagedClient } from '../../support/managed.ts';
import { until } from '../../support/until.ts';

const fragment = { type: 'text-delta', turnId: 'turn_1', messageId: 'msg_1', agent: 'assistant', step: 1 } as const;

test('of a long event, every reader that does not read holds a slice and not the whole', async (t) => {
  const app = await startApp(t);
  const client = new ManagedClient(app);
  const id = await client.create();
  const held: Socket[] = [];
  app.server.server.on('connection', (socket: Socket) => held.push(socket));
  await app.listen();
  for (let count = 0; count < 20; count += 1) await openPaused(t, client, id);
  // In JSON each character takes six bytes. What the kernel takes of the first messages is no longer ours.
  for (let count = 0; count < 8; count += 1) await client.say(id, '\u0001'.repeat(170_000));
  await app.context.runner.idle();
  await until(async () => held.every((socket) => socket.writableLength > 0));
  const most = Math.max(...held.map((socket) => socket.writableLength));
  assert.ok(most <= 128 * 1024, `${most} bytes wait in one socket`);
});

test('a slow reader gets a long event whole, also where a slice would end between the halves of a character', async (t) => {
  const app = await startApp(t);
  const client = new ManagedClient(app);
  const id = await client.create();
  const reader = await openPaused(t, client, id, '?deltas=true');
  const texts = ['\u{1f642}'.repeat(2 * 1024 * 1024), `a${'\u{1f642}'.repeat(70_000)}`, `${'\u2028\u0001é'.repeat(50_000)}`];
  let offset = 0;
  for (const text of texts) {
    app.context.feed.publish(id, [{ ...fragment, offset, text }]);
    offset += text.length;
  }
  const received = await readSlowly(reader, (bytes) => bytes.includes('\\u0001é"}\n\n'));
  assert.deepEqual(textsOf(received), texts);
});

test('a stream that ends in the middle of a long event ends without a word: it would become a part of the event', async (t) => {
  const app = await startApp(t);
  const client = new ManagedClient(app);
  const id = await client.create();
  const reader = await openPaused(t, client, id, '?deltas=true');
  // More than the kernel takes of it.
  const text = 'x'.repeat(16 * 1024 * 1024);
  app.context.feed.publish(id, [{ ...fragment, offset: 0, text }]);
  await sleep(100);
  app.server.streams.close();
  const received = await readSlowly(reader, (bytes) => bytes.subarray(-5).equals(Buffer.from('0\r\n\r\n')));
  assert.ok(received.length < text.length, `${received.length} bytes`);
  assert.doesNotMatch(bodyOf(received), /stream\.closed/);
});

test('a slow reader of a turn gets a long text whole', async (t) => {
  const app = await startApp(t);
  const session = (await app.request('POST', '/v1/sessions', {})).body;
  const text = '\u{1f642}'.repeat(90_000);
  const body = JSON.stringify({ text: `/say ${text}`, stream: true });
  const reader = await openSocket(t, app);
  const head = `Authorization: Bearer ${app.apiKey}\r\nAccept: text/event-stream\r\nContent-Type: application/json`;
  reader.write(
    `POST /v1/sessions/${session.id}/messages HTTP/1.1\r\nHost: x\r\n${head}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
  const received = await readSlowly(reader, (bytes) => bytes.subarray(-5).equals(Buffer.from('0\r\n\r\n')));
  const texts = Array.from(bodyOf(received).matchAll(/^event: text\ndata: (.*)$/gm), ([, data = '']) => JSON.parse(data).data.part.text);
  assert.equal(texts.join(''), text);
});

async function openSocket(t: TestContext, app: TestApp): Promise<Socket> {
  const url = new URL(await app.listen());
  const socket = connect(Number(url.port), url.hostname);
  socket.on('error', () => {});
  t.after(() => socket.destroy());
  await once(socket, 'connect');
  return socket;
}

/** Opens a stream and reads nothing of it. */
async function openPaused(t: TestContext, client: ManagedClient, id: string, query = ''): Promise<Socket> {
  const { app } = client;
  const before = app.server.streams.size;
  const socket = await openSocket(t, app);
  socket.pause();
  socket.write(
    `GET ${client.base}/sessions/${id}/events/stream${query} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${client.credential}\r\n\r\n`,
  );
  await until(async () => app.server.streams.size > before);
  return socket;
}

async function readSlowly(socket: Socket, isEnd: (bytes: Buffer) => boolean): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of socket) {
    chunks.push(chunk);
    if (chunks.length % 20 === 0) await sleep(2);
    if (isEnd(Buffer.concat(chunks.slice(-4)))) break;
  }
  return Buffer.concat(chunks);
}

/** The body of a chunked response. */
function bodyOf(response: Buffer): string {
  const parts: Buffer[] = [];
  let at = response.indexOf('\r\n\r\n') + 4;
  for (;;) {
    const lineEnd = response.indexOf('\r\n', at);
    const length = Number.parseInt(response.toString('latin1', at, lineEnd), 16);
    if (lineEnd < 0 || length === 0) return Buffer.concat(parts).toString();
    parts.push(response.subarray(lineEnd + 2, lineEnd + 2 + length));
    at = lineEnd + 2 + length + 2;
  }
}

function textsOf(response: Buffer): string[] {
  return Array.from(bodyOf(response).matchAll(/^event: agent\.message_delta\ndata: (.*)$/gm), ([, data = '']) => JSON.parse(data).text);
}
