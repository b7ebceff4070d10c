import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { connect } from 'node:net';
import { PassThrough, Readable } from 'node:stream';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import fastify from 'fastify';
import { pino } from 'pino';
import type { Principal } from '../../../src/accounts/principal.ts';
import { bodyLimits, limitBodyMemory } from '../../../src/surfaces/shared/server/body-memory.ts';
import { handleError } from '../../../src/surfaces/shared/server/handle-error.ts';
import { acceptJsonOnly } from '../../../src/surfaces/shared/server/json-body.ts';
import { closeAfterTest } from '../../support/close-after-test.ts';
import { until } from '../../support/until.ts';

const KiB = 1024;

/** Counts the bytes of bodies that were let through. */
let received = 0;

let pagesClosed = () => {};

/** What an operator would read. */
const logged: string[] = [];
const logger = pino({ level: 'error' }, { write: (line) => void logged.push(line) });

async function listen(): Promise<string> {
  const server = closeAfterTest(fastify({ bodyLimit: 1024 * KiB }));
  server.decorateRequest('principal', undefined);
  acceptJsonOnly(server);
  server.setErrorHandler(handleError(logger));
  server.addHook('onRequest', async (request) => {
    request.principal = { organization: { id: Number(request.headers.org) } } as Principal;
  });
  server.addHook('preParsing', limitBodyMemory({ organization: 1000 * KiB, total: 1500 * KiB }));
  server.addHook('preParsing', (_request, _reply, payload, done) => {
    payload.on('data', (chunk: Buffer) => {
      received += chunk.length;
    });
    done(null, payload);
  });
  server.post('/', async () => 'taken');
  server.get('/', async () => 'read');
  server.get('/slow', () => new Promise(() => {}));
  server.get('/pages', (_request, reply) => reply.send(new Readable({ read() {} }).on('close', () => pagesClosed())));
  return server.listen({ host: '127.0.0.1', port: 0 });
}

test('large bodies that are held back take up a bounded part of the memory, and of that one organization only its share', async (t) => {
  const url = await listen();
  const post = async (org: number, size: number, init: RequestInit = {}) => {
    const headers = { org: String(org), 'content-type': 'application/json' };
    const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify('x'.repeat(size)), ...init });
    return [response.status, await response.text()];
  };
  const taken = [200, 'taken'];
  const refused = [503, JSON.stringify({ detail: 'The server is overloaded.' })];

  const held = connect(Number(new URL(url).port), '127.0.0.1').setEncoding('latin1');
  t.after(() => held.destroy());
  const holdBack = async () => {
    const size = 900 * KiB;
    const before = received;
    const head = `POST / HTTP/1.1\r\nHost: x\r\norg: 1\r\nContent-Type: application/json\r\nContent-Length: ${size}\r\n\r\n`;
    held.write(`${head}"${'x'.repeat(size - 2)}`);
    await until(async () => received - before === size - 1);
  };

  await holdBack();
  assert.deepEqual(await post(1, 300 * KiB), refused, 'the organization has its share');
  const inPieces = { body: new Blob([JSON.stringify('x'.repeat(300 * KiB))]).stream(), duplex: 'half' } as RequestInit;
  assert.deepEqual(await post(1, 0, inPieces), refused, 'also if the length is not announced');
  assert.deepEqual(await post(1, 10 * KiB), taken, 'a message needs no part of it');
  assert.deepEqual(await post(2, 300 * KiB), taken);
  assert.deepEqual(await post(2, 800 * KiB), refused, 'all organizations together have theirs');

  held.write('"');
  assert.match((await once(held, 'data')).join(), /^HTTP\/1.1 200 OK/);
  await until(async () => (await post(1, 300 * KiB))[0] === 200);
  assert.deepEqual(await post(2, 800 * KiB), taken, 'what a request held is given back with its response');

  await holdBack();
  assert.deepEqual(await post(1, 300 * KiB), refused);
  held.destroy();
  await until(async () => (await post(1, 300 * KiB))[0] === 200);
});

test('a connection goes on after a large body that its route does not read', async (t) => {
  const socket = connect(Number(new URL(await listen()).port), '127.0.0.1').setEncoding('latin1');
  t.after(() => socket.destroy());
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk;
  });
  for (let request = 0; request < 3; request += 1)
    socket.write(`GET / HTTP/1.1\r\nHost: x\r\nContent-Length: ${300 * KiB}\r\n\r\n${'x'.repeat(300 * KiB)}`);
  await until(async () => text.split('HTTP/1.1 200 OK').length === 4);
});

test('a large body that its route does not read does no harm if its client leaves, or if there is no room for it', async (t) => {
  const url = await listen();
  const open = (text: string) => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1').setEncoding('latin1');
    t.after(() => socket.destroy());
    socket.write(text.replace('Host', 'org: 1\r\nContent-Type: application/json\r\nHost'));
    return socket;
  };
  const leaving = open(`GET /slow HTTP/1.1\r\nHost: x\r\nContent-Length: ${300 * KiB}\r\n\r\n${'x'.repeat(100 * KiB)}`);
  const before = received;
  await until(async () => received > before);
  leaving.resetAndDestroy();

  const held = open(`POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${1000 * KiB}\r\n\r\n"${'x'.repeat(990 * KiB)}`);
  await until(async () => received - before > 990 * KiB);
  const body = 'x'.repeat(200 * KiB);
  const unread = open(`GET / HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  assert.match((await once(unread, 'data')).join(), /^HTTP\/1.1 200 OK/);
  const tooLarge = open(`POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${2000 * KiB}\r\n\r\n${'x'.repeat(2000 * KiB)}`);
  assert.match((await once(tooLarge, 'data')).join(), /^HTTP\/1.1 413 /);
  held.write(`${'x'.repeat(10 * KiB - 2)}"`);
  assert.match((await once(held, 'data')).join(), /^HTTP\/1.1 200 OK/);
});

test('a client that leaves before the first page of a long answer, after a body that nobody reads, is no error of the server', async () => {
  const socket = connect(Number(new URL(await listen()).port), '127.0.0.1');
  const closed = new Promise<void>((resolve) => {
    pagesClosed = resolve;
  });
  const before = received;
  socket.write('GET /pages HTTP/1.1\r\nHost: x\r\norg: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n');
  await until(async () => received - before === 2);
  socket.resetAndDestroy();
  await closed;
  await setImmediate();
  assert.deepEqual(logged, []);
});

test('what still comes of a body after its response is over counts no more: nothing would give it back', async () => {
  const hook = limitBodyMemory({ organization: 1000 * KiB, total: 1500 * KiB }) as (...given: unknown[]) => void;
  const send = (sizes: number[], endAfter: number) => {
    const [raw, payload] = [new EventEmitter(), new PassThrough()];
    const request = { principal: { organization: { id: 1 } }, headers: { 'transfer-encoding': 'chunked' } };
    return new Promise<unknown>((resolve) => {
      hook(request, { raw }, payload, (_error: unknown, counted: PassThrough) => {
        counted
          .on('error', resolve)
          .on('end', () => resolve('taken'))
          .resume();
      });
      for (const [index, size] of sizes.entries()) {
        if (index === endAfter) raw.emit('close');
        payload.write(Buffer.alloc(size * KiB));
      }
      payload.end();
    });
  };
  assert.equal(await send([300, 600, 600], 0), 'taken');
  assert.equal(await send([900], 1), 'taken');
});

test('a container or machine with little memory takes fewer bytes of bodies at once', () => {
  const MiB = 1024 * KiB;
  for (const [memory, total, organization] of [
    [64, 32, 16],
    [512, 64, 32],
    [1_024, 128, 64],
    [2_048, 256, 128],
    [4_096, 512, 128],
    [65_536, 512, 128],
  ] as const)
    assert.deepEqual(bodyLimits(memory * MiB), { organization: organization * MiB, total: total * MiB });
});
