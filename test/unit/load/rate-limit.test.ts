import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServiceError } from '../../../src/errors.ts';
import { RateLimit } from '../../../src/load/rate-limit.ts';

function taken(limit: RateLimit, times: number, now: number): number {
  let count = 0;
  for (let index = 0; index < times; index += 1) {
    try {
      limit.take(1, now);
      count += 1;
    } catch (error) {
      assert.ok(error instanceof ServiceError && error.kind === 'rate-limited');
    }
  }
  return count;
}

test('an org may send its burst at once and its rate from then on', () => {
  const limit = new RateLimit(10, 20);
  assert.equal(taken(limit, 50, 0), 20);
  assert.equal(taken(limit, 50, 500), 5);
  assert.throws(() => limit.take(1, 525), { kind: 'rate-limited', retryAfterSeconds: 0.075 });
});

test('processes that share the limit keep it together', () => {
  const limits = [new RateLimit(12, 24), new RateLimit(12, 24), new RateLimit(12, 24)];
  for (const limit of limits) limit.shareWith(3);
  assert.equal(
    limits.reduce((sum, limit) => sum + taken(limit, 50, 0), 0),
    24,
  );
  assert.equal(
    limits.reduce((sum, limit) => sum + taken(limit, 50, 1_000), 0),
    12,
  );
});

test('of a burst that is smaller than the number of processes, each still has one', () => {
  const limit = new RateLimit(3, 2);
  limit.shareWith(3);
  assert.equal(taken(limit, 5, 0), 1);
  assert.equal(taken(limit, 5, 1_000), 1);
});

test('a rate or a burst of 0 turns the limit off', () => {
  assert.equal(taken(new RateLimit(0, 5), 100, 0), 100);
  assert.equal(taken(new RateLimit(5, 0), 100, 0), 100);
});

test('of very many orgs, those are remembered that came last', () => {
  const limit = new RateLimit(1, 1);
  for (let orgId = 1; orgId <= 100_000; orgId += 1) limit.take(orgId, 0);
  assert.equal(taken(limit, 1, 0), 0, 'the first is remembered, and now is the last');
  limit.take(100_001, 0);
  assert.equal(taken(limit, 1, 0), 0);
  limit.take(2, 0);
  assert.throws(() => limit.take(100_001, 0), ServiceError);
});
