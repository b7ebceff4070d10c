import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SharedWork } from '../../../src/work/shared-work.ts';

test('work that is asked for while it is under way is shared, by its name, and begun anew once it has ended, also in failure', async () => {
  const work = new SharedWork<string>();
  const first = Promise.withResolvers<string>();
  let begun = 0;
  const begin = () => {
    begun += 1;
    return first.promise;
  };
  const shared = [work.run('one', begin), work.run('one', begin)];
  const other = work.run('two', async () => 'another');
  assert.deepEqual([begun, work.size], [1, 2]);
  assert.equal(await other, 'another');
  const ended = work.ended();
  first.reject(new Error('out of reach'));
  for (const waiting of shared) await assert.rejects(waiting, /out of reach/);
  await ended;
  assert.equal(work.size, 0);
  assert.equal(await work.run('one', async () => 'again'), 'again');
});
