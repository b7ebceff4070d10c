// Server-Sent Events arrive in pieces that know nothing of lines or characters.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type Frame, readFrames } from '../../../client/src/read-events.ts';

const stream =
  ': hello\n\nevent: text\ndata: {"a":"ü👋"}\n\nid: 7\r\nevent:done\r\ndata: one\r\ndata: two\r\n\r\ndata: bare\n\ndata: cut off';
const expected: Frame[] = [
  { event: 'text', data: '{"a":"ü👋"}' },
  { event: 'done', data: 'one\ntwo' },
  { event: '', data: 'bare' },
];

test('frames are the same wherever the bytes are cut', async () => {
  const bytes = new TextEncoder().encode(stream);
  await fc.assert(
    fc.asyncProperty(fc.uniqueArray(fc.integer({ min: 1, max: bytes.length - 1 })), async (cuts) => {
      const edges = [0, ...cuts.sort((a, b) => a - b), bytes.length];
      const pieces = edges.slice(1).map((edge, index) => bytes.subarray(edges[index], edge));
      assert.deepEqual(await framesOf(pieces), expected);
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
  for await (const frame of readFrames(new Response(body))) {
    assert.equal(frame.data, '1');
    break;
  }
  assert.equal(cancelled, true);
});

async function framesOf(pieces: Uint8Array[]): Promise<Frame[]> {
  const frames: Frame[] = [];
  for await (const frame of readFrames(new Response(new Blob(pieces.map((piece) => new Uint8Array(piece)))))) frames.push(frame);
  return frames;
}
