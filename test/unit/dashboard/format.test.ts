import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clockTime, dueTime, duration, recentTime, relativeTime, timeOfDay } from '../../../dashboard/src/parts/format.ts';

test('a duration is rounded to its unit, and never to 60 of it', () => {
  const durations: [milliseconds: number, text: string][] = [
    [0, '0 ms'],
    [999.4, '999 ms'],
    [999.6, '1.0 s'],
    [59_940, '59.9 s'],
    [59_960, '1 min 0 s'],
    [119_400, '1 min 59 s'],
    [119_700, '2 min 0 s'],
    [3_599_400, '59 min 59 s'],
    [3_599_600, '1 h 0 min'],
    [86_369_000, '23 h 59 min'],
    [86_371_000, '1 d 0 h'],
    [3 * 86_400_000 + 7_200_000, '3 d 2 h'],
  ];
  for (const [milliseconds, text] of durations) assert.equal(duration(milliseconds), text);
});

test('how long ago something was is rounded to its unit, and never to 60 minutes or 24 hours', () => {
  const now = Date.parse('2026-11-17T12:00:00Z');
  const times: [secondsAgo: number, text: string][] = [
    [9, 'just now'],
    [-9, 'just now'],
    [59, '59 s ago'],
    [60, '1 min ago'],
    [59.4 * 60, '59 min ago'],
    [59.6 * 60, '1 h ago'],
    [-23.4 * 3_600, 'in 23 h'],
    [-23.6 * 3_600, 'in 1 d'],
    [29 * 86_400, '29 d ago'],
  ];
  for (const [secondsAgo, text] of times) assert.equal(relativeTime(now - secondsAgo * 1_000, now), text);
  assert.match(relativeTime(now - 30 * 86_400_000, now), /2026/);
});

test('what happens just now is not ahead, however long ago the clock of the page has ticked', () => {
  const now = Date.parse('2026-11-17T12:00:00Z');
  for (const age of [0, 9_400, 9_600, 10_100, 60_000]) assert.equal(relativeTime(now, recentTime(now - age, now)), 'just now', `${age} ms`);
});

test('what comes next is due, and neither past nor just now, once its time is reached or nearly', () => {
  const now = Date.parse('2026-11-17T12:00:00Z');
  const times: [secondsAhead: number, text: string][] = [
    [-7_200, 'due now'],
    [0, 'due now'],
    [9, 'due now'],
    [10, 'next in 10 s'],
    [300, 'next in 5 min'],
  ];
  for (const [secondsAhead, text] of times) assert.equal(dueTime(now + secondsAhead * 1_000, now), text);
});

test('the time of an entry has its day unless it is today, and its year unless it is this one', () => {
  const at = '2026-11-17T12:00:00.250Z';
  assert.match(clockTime(at, Date.parse(at) + 1_000), /^\d\d:\d\d:00\.250$/);
  assert.match(timeOfDay(at, Date.parse(at) + 1_000), /^\d\d:\d\d$/);
  assert.match(timeOfDay(at, Date.parse(at) + 365 * 86_400_000), /2026, \d\d:\d\d$/);
  assert.match(timeOfDay(at, Date.parse(at) + 48 * 3_600_000), /^Nov 1[78], \d\d:\d\d$/);
  assert.match(clockTime(at, Date.parse(at) + 48 * 3_600_000), /^Nov 1[78], \d\d:\d\d:00\.250$/);
});
