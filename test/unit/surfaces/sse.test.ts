import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';
import { test } from 'node:test';
import fastify from 'fastify';
import type { EndableStream, OpenStreams } from '../../../src/surfaces/shared/streams/open-streams.ts';
import { drained, sendEvents } from '../../../src/surfaces/shared/streams/sse.ts';

test('a client that leaves before it has read everything is not waited for, nor counted as stalled', async () => {
  const response = Object.assign(new EventEmitter(), { destroyed: false, socket: null, destroy() {} });
  const streams = { stallMs: 60_000, stalledCount: 0 };
  const waiting = drained(response as unknown as ServerResponse, undefined, streams as OpenStreams);
  response.destroyed = true;
  response.emit('close');
  await waiting;
  assert.equal(streams.stalledCount, 0);
  assert.deepEqual(response.eventNames(), []);
});

test('what a source has made when the server ends its stream goes out to its end, however long it is', async (t) => {
  const frame = `data: ${'x'.repeat(300_000)}\n\n`;
  const add = (stream: EndableStream) => {
    stream.end('server_shutdown');
    return () => {};
  };
  const server = fastify();
  server.decorate('streams', { add, stallMs: 60_000 } as unknown as OpenStreams);
  server.get('/', async (_request, reply) => {
    await sendEvents(reply, async function* () {
      yield frame;
    });
    return reply;
  });
  t.after(() => server.close());
  const response = await fetch(await server.listen({ host: '127.0.0.1', port: 0 }));
  assert.equal(await response.text(), `${frame}: server_shutdown\n\n`);
});
