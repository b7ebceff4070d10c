// How often a list is read again while somebody looks at it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noLook, noteLook, untilNextLook } from '../../../dashboard/src/parts/next-look.ts';

test('a list in which nothing changes is read less and less often, and at once as before when something does', () => {
  let look = noLook;
  const waits = Array.from({ length: 60 }, () => {
    look = noteLook(look, 'the same', 10);
    return untilNextLook(2_000, look);
  });
  assert.equal(waits[0], 2_000);
  assert.ok(waits.every((wait, index) => index === 0 || wait >= (waits[index - 1] ?? 0)));
  assert.equal(waits.at(-1), 6_000);
  assert.equal(untilNextLook(2_000, noteLook(look, 'something else', 10)), 2_000);
});

test('a list that takes long to read is read seldom enough to leave the server to others', () => {
  assert.equal(untilNextLook(2_000, noteLook(noLook, 'rows', 400)), 10_000);
});
