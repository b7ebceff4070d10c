import assert from 'node:assert/strict';
import { test } from 'node:test';
import { duration } from '../../../dashboard/src/parts/format.ts';

test('a duration is rounded to its unit, and never to 60 of it', () => {
  const durations: [milliseconds: number, text: string][] = [
    [0, '0 ms'],
    [999.4, '999 ms'],
    [999.6, '1.0 s'],
    [59_940, '59.9 s'],
    [59_960, '1 min 0 s'],
    [119_400, '1 min 59 s'],
    [119_700, '2 min 0 s'],
  ];
  for (const [milliseconds, text] of durations) assert.equal(duration(milliseconds), text);
});
