import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadOnce } from '../../../src/work/load-once.ts';

test('what was loaded is kept, and a load that failed is tried again', async () => {
  let tries = 0;
  const resource = loadOnce(async () => {
    tries += 1;
    if (tries === 1) throw new Error('too many open files');
    return `try ${tries}`;
  });
  assert.equal(await resource.loaded(), undefined, 'nobody has asked');
  const first = [resource.get(), resource.get()];
  assert.equal(await resource.loaded(), undefined, 'letting go of what could not be loaded');
  for (const waiting of first) await assert.rejects(waiting, /too many open files/);
  assert.equal(tries, 1, 'those who ask at once share a load');
  assert.deepEqual(await Promise.all([resource.get(), resource.get()]), ['try 2', 'try 2']);
  assert.equal(await resource.loaded(), 'try 2');
  assert.equal(tries, 2);
});
