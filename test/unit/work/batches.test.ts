import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { Batches } from '../../../src/work/batches.ts';

test('what is added while a batch is written goes together into the next, in order, and no batch is longer than it may be', async () => {
  const written: number[][] = [];
  const first = Promise.withResolvers<void>();
  const batches = new Batches<number>(3, async (batch) => {
    written.push(batch);
    if (written.length === 1) await first.promise;
  });
  for (const entry of [1, 2]) batches.add(entry);
  assert.deepEqual([batches.isWriting, batches.waiting], [true, [1, 2]], 'the first batch waits for what else comes now');
  await setImmediate();
  assert.deepEqual(written, [[1, 2]]);
  for (const entry of [3, 4, 5, 6]) batches.add(entry);
  await setImmediate();
  assert.deepEqual([written.length, batches.waiting], [1, [3, 4, 5, 6]], 'one batch at a time');
  first.resolve();
  await setImmediate();
  assert.deepEqual(written, [[1, 2], [3, 4, 5], [6]]);
  assert.deepEqual([batches.isWriting, batches.waiting], [false, []]);
  batches.add(7);
  await setImmediate();
  assert.deepEqual(written.at(-1), [7], 'and so on, once all was written');
});

test('a batch is no larger than it may be, but for an entry that is so alone', async () => {
  const written: number[][] = [];
  const batches = new Batches<number>(3, async (batch) => void written.push(batch), { of: (entry) => entry, max: 10 });
  for (const entry of [4, 6, 1, 1, 1, 1, 30, 2, 20, 10]) batches.add(entry);
  await setImmediate();
  await setImmediate();
  assert.deepEqual(written, [[4, 6], [1, 1, 1], [1], [30], [2], [20], [10]]);
});

test('entries that wait can be withdrawn, those that are being written cannot', async () => {
  const written: number[][] = [];
  const first = Promise.withResolvers<void>();
  const batches = new Batches<number>(3, async (batch) => {
    written.push(batch);
    await first.promise;
  });
  batches.add(1);
  await setImmediate();
  for (const entry of [2, 3, 4, 5]) batches.add(entry);
  assert.deepEqual(
    batches.withdraw((entry) => entry % 2 === 1),
    [3, 5],
  );
  first.resolve();
  await setImmediate();
  assert.deepEqual(written, [[1], [2, 4]]);
});
