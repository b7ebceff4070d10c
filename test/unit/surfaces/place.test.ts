import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import fastify from 'fastify';
import { leavePlaceForAnswer } from '../../../src/surfaces/shared/server/place.ts';
import { sendLongArray } from '../../../src/surfaces/shared/streams/long-array.ts';
import { closeAfterTest } from '../../support/close-after-test.ts';
import { until } from '../../support/until.ts';

const item = 'x'.repeat(1024 * 1024);

test('a client that does not read its answer holds no place', async () => {
  const held = new Set<string>();
  const begun = new Set<string>();
  const server = closeAfterTest(fastify({ forceCloseConnections: true }));
  server.decorateRequest('place', undefined);
  server.addHook('onRequest', async (request) => {
    begun.add(request.url);
    held.add(request.url);
    request.place = { leave: () => void held.delete(request.url) };
  });
  server.addHook('onSend', leavePlaceForAnswer);
  async function* pages() {
    for (let page = 0; page < 100; page += 1) {
      // The first page is work like any other; the next is read once the client has taken what was sent.
      if (page === 0) assert.ok(held.has('/array'));
      yield [item];
    }
  }
  server.get('/array', (_request, reply) => sendLongArray(reply, { object: 'list' }, 'data', pages()));
  server.get('/whole', async () => item.repeat(64));
  const { port } = new URL(await server.listen({ host: '127.0.0.1', port: 0 }));
  for (const path of ['/array', '/whole']) {
    const socket = connect(Number(port), '127.0.0.1').pause();
    await once(socket, 'connect');
    socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
    await until(async () => begun.has(path) && !held.has(path), 5_000, `the place of ${path}`);
    socket.destroy();
  }
});
