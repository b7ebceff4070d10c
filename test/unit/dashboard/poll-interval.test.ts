// How often a list is read again while somebody looks at it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noPoll, notePoll, pollInterval } from '../../../dashboard/src/parts/poll-interval.ts';

test('a list in which nothing changes is read less and less often, and at once as before when something does', () => {
  let poll = noPoll;
  const waits = Array.from({ length: 60 }, () => {
    poll = notePoll(poll, 'the same', 10);
    return pollInterval(2_000, poll);
  });
  assert.equal(waits[0], 2_000);
  assert.ok(waits.every((wait, index) => index === 0 || wait >= (waits[index - 1] ?? 0)));
  assert.equal(waits.at(-1), 6_000);
  assert.equal(pollInterval(2_000, notePoll(poll, 'something else', 10)), 2_000);
});

test('a list that takes long to read is read seldom enough to leave the server to others', () => {
  assert.equal(pollInterval(2_000, notePoll(notePoll(noPoll, 'rows', 600), 'rows and one', 400)), 10_000);
});

test('a single slow read does not leave the list out of date for long', () => {
  const quick = notePoll(noPoll, 'rows', 10);
  assert.equal(pollInterval(2_000, notePoll(noPoll, 'rows', 4_000)), 2_000);
  assert.equal(pollInterval(2_000, notePoll(quick, 'rows and one', 4_000)), 2_000);
  assert.equal(pollInterval(2_000, notePoll(notePoll(quick, 'rows and one', 4_000), 'rows', 10)), 2_000);
});
