import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { NewEvent } from '../../../src/session/events.ts';
import { call, called, finish, finished, received, run, text } from './scene.ts';

const mebi = 2 ** 20;
const failures = (added: NewEvent[]) => added.flatMap(({ type, data }) => (type === 'turn-failed' ? [data] : []));

test('a turn that has added 16 Mi characters fails, before the model is asked again', async () => {
  // Each answer is as long as one may be.
  const answers = Array.from({ length: 4 }, () => [text('x'.repeat(4 * mebi)), call('again'), finish]);
  const { asked, ran, added } = await run({ events: [received('hi')], answers });
  assert.deepEqual([asked.length, ran.length], [4, 3], 'what the last answer calls is not run');
  assert.deepEqual(failures(added), [
    {
      code: 'turn_too_long',
      message: 'The turn has produced more than 16777216 characters, with its tool calls and their results.',
      usage: { input: 400, output: 40, cachedInput: 0 },
    },
  ]);
  assert.equal(added.filter(({ type }) => type === 'tool-finished').length, 4, 'every call has a result');
});

test('calls and results count with the name of the tool', async () => {
  const longNamed = { type: 'tool-call' as const, tool: 'x'.repeat(4 * mebi), input: {} };
  const { asked, added } = await run({
    events: [received('hi')],
    answers: [
      [longNamed, finish],
      [longNamed, finish],
    ],
  });
  assert.deepEqual([asked.length, failures(added)[0]?.code], [2, 'turn_too_long']);
});

test('a turn that another process takes over fails if it is too long already: nothing runs, and the model is not asked', async () => {
  const events = [received('hi'), called('one'), called('two'), finished('one', 'x'.repeat(16 * mebi))];
  const { asked, ran, added } = await run({ events, recovered: true, repeatable: true });
  assert.deepEqual([asked, ran, failures(added)[0]?.code], [[], [], 'turn_too_long']);
});

test('what earlier turns said does not count, nor what participants tell each other meanwhile', async () => {
  const release = { context: { limit_tokens: 100_000_000 } };
  const long = 'x'.repeat(16 * mebi);
  const events = [received('hi'), called('one'), finished('one', long), received('and now?'), received(long, { silent: true })];
  const { added } = await run({ events, release, answers: [[text('Yes.'), finish]] });
  assert.equal(added.at(-1)?.type, 'turn-ended');
});
