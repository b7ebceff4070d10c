import assert from 'node:assert/strict';
import { test } from 'node:test';
import { longestWaitsMs, nextAttemptAt, parseRetryAfter } from '../../../src/outbox/schedule.ts';

const failedAt = new Date('2026-01-01T00:00:00Z');
const minute = 60_000;
const hour = 60 * minute;
const steps = [5_000, 5 * minute, 30 * minute, 2 * hour, 5 * hour, 10 * hour, 10 * hour];

const waitAfter = (attempts: number, retryAfterMs: number, random: number) => {
  const next = nextAttemptAt(failedAt, attempts, retryAfterMs, () => random);
  return next && next.getTime() - failedAt.getTime();
};

test('eight attempts: at once, then after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 10 h', () => {
  assert.equal(longestWaitsMs.length, 8);
  steps.forEach((step, index) => {
    assert.equal(waitAfter(index + 1, 0, 0.5), step);
  });
  assert.equal(waitAfter(8, 0, 0.5), undefined);
});

test('a fifth of jitter either way', () => {
  steps.forEach((step, index) => {
    assert.equal(waitAfter(index + 1, 0, 0), step * 0.8);
    assert.equal(waitAfter(index + 1, 0, 1), step * 1.2);
  });
});

test('Retry-After lengthens a step, up to twice, and never shortens it', () => {
  assert.equal(waitAfter(2, 7 * minute, 0.5), 7 * minute);
  assert.equal(waitAfter(2, 24 * hour, 0.5), 10 * minute);
  assert.equal(waitAfter(2, 1_000, 0.5), 5 * minute);
  const longest = [0, ...steps.map((_, index) => Number(waitAfter(index + 1, 24 * hour, 0.5)))];
  assert.deepEqual(
    longestWaitsMs,
    longest.map((wait) => wait + minute),
  );
});

test('Retry-After is seconds or a date', () => {
  assert.equal(parseRetryAfter(' 120 ', failedAt), 120_000);
  assert.equal(parseRetryAfter('Thu, 01 Jan 2026 00:01:00 GMT', failedAt), minute);
  for (const text of [null, '', 'soon', '-5', 'Wed, 31 Dec 2025 00:00:00 GMT']) assert.equal(parseRetryAfter(text, failedAt), 0);
});
