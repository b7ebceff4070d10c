// Server-Sent Events arrive in pieces that know nothing of lines or characters.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { readEvents } from '../../../client/src/read-events.ts';

const stream =
  ': hello\n\nevent: text\ndata: {"a":"ü👋"}\n\nid: 7\r\nevent:done\r\ndata: one\r\ndata: two\r\n\r\ndata: bare\n\ndata: cut off';
const expected = ['{"a":"ü👋"}', 'one\ntwo', 'bare'];

test('events are the same wherever the bytes are cut', async () => {
  const bytes = new TextEncoder().encode(stream);
  await fc.assert(
    fc.asyncProperty(fc.uniqueArray(fc.integer({ min: 1, max: bytes.length - 1 })), async (cuts) => {
      const edges = [0, ...cuts.sort((a, b) => a - b), bytes.length];
      const pieces = edges.slice(1).map((edge, index) => bytes.subarray(edges[index], edge));
      assert.deepEqual(await eventsOf(pieces), expected);
    }),
    { numRuns: 200 },
  );
});

test('leaving the loop closes the connection', async () => {
  let cancelled = false;
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(new TextEncoder().encode('data: 1\n\ndata: 2\n\n')),
    cancel: () => {
      cancelled = true;
    },
  });
  for await (const data of readEvents(new Response(body))) {
    assert.equal(data, '1');
    break;
  }
  assert.equal(cancelled, true);
});

async function eventsOf(pieces: Uint8Array[]): Promise<string[]> {
  const events: string[] = [];
  for await (const data of readEvents(new Response(new Blob(pieces.map((piece) => new Uint8Array(piece)))))) events.push(data);
  return events;
}
