import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OrgCache } from '../../../src/accounts/org-cache.ts';

test('of what is long, no more is kept than memory has room for', async () => {
  const cache = new OrgCache<{ text: string }>();
  const reads: number[] = [];
  const get = (number: number, size: number) =>
    cache.get(String(number), async () => {
      reads.push(number);
      return { orgId: 1, value: { text: 'as long as it says' }, size };
    });
  for (let number = 0; number < 100; number += 1) await get(number, 2 ** 20);
  reads.length = 0;
  await get(99, 2 ** 20);
  await get(0, 2 ** 20);
  assert.deepEqual(reads, [0], 'the newest is kept, the oldest was let go');
});
