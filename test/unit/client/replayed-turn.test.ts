// A turn that the server sends again after a broken connection: either it went on meanwhile, or it started a step again.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type TurnEvent, TurnText } from '../../../client/src/index.ts';
import { ReplayedTurn } from '../../../client/src/replayed-turn.ts';

const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
const session_id = 'ses_1';
const start = (step = 1): TurnEvent => ({ type: 'step_start', session_id, data: { step, agent: 'main' } });
const text = (words: string): TurnEvent => ({ type: 'text', session_id, data: { part: { type: 'text', text: words } } });
const thought = (words: string): TurnEvent => ({ type: 'reasoning', session_id, data: { part: { type: 'reasoning', text: words } } });
const tool = (state: string): TurnEvent => ({
  type: 'tool_use',
  session_id,
  data: { part: { type: 'tool_use', id: 'call_1', tool: 'bash', input: {}, state } },
});
const finish = (step = 1): TurnEvent => ({ type: 'step_finish', session_id, data: { step, finish_reason: 'stop', usage } });
const done: TurnEvent = { type: 'done', data: { usage } };
const failed: TurnEvent = { type: 'error', session_id, data: { code: 'overloaded', provider: null, message: 'Busy.' } };

/** What the caller is given, in short. */
function given(...tellings: TurnEvent[][]): { short: string[]; text: string } {
  const turn = new ReplayedTurn();
  const answer = new TurnText();
  const short: string[] = [];
  for (const telling of tellings) {
    turn.restart();
    for (const event of telling.flatMap((told) => turn.receive(told))) {
      answer.add(event);
      if (event.type === 'text' || event.type === 'reasoning') short.push(event.data.part.text);
      else if (event.type === 'step_start') short.push(`<${event.data.step}>`);
      else short.push(event.type === 'tool_use' ? event.data.part.state : event.type);
    }
  }
  return { short, text: answer.text };
}

const cases: { name: string; tellings: TurnEvent[][]; short: string[]; text: string }[] = [
  {
    name: 'the same words are given once, however they are cut',
    tellings: [
      [start(), text('The '), text('sea is')],
      [start(), text('The sea'), text(' is calm'), text('.'), finish(), done],
    ],
    short: ['<1>', 'The ', 'sea is', ' calm', '.', 'step_finish', 'done'],
    text: 'The sea is calm.',
  },
  {
    name: 'other words begin the step anew',
    tellings: [
      [start(), text('The sea is')],
      [start(), text('The '), text('hills '), text('are green.'), finish(), done],
    ],
    short: ['<1>', 'The sea is', '<1>', 'The hills ', 'are green.', 'step_finish', 'done'],
    text: 'The hills are green.',
  },
  {
    name: 'fewer words begin it anew when they are all there',
    tellings: [
      [start(), text('The sea is')],
      [start(), text('The sea'), finish(), done],
    ],
    short: ['<1>', 'The sea is', '<1>', 'The sea', 'step_finish', 'done'],
    text: 'The sea',
  },
  {
    name: 'other thoughts take the words after them along',
    tellings: [
      [start(), thought('Hm'), text('Yes')],
      [start(), thought('Ah'), text('Yes'), finish(), done],
    ],
    short: ['<1>', 'Hm', 'Yes', '<1>', 'Ah', 'Yes', 'step_finish', 'done'],
    text: 'Yes',
  },
  {
    name: 'the same thoughts are said again before other words',
    tellings: [
      [start(), thought('Hm'), text('Yes')],
      [start(), thought('H'), thought('m'), text('No'), finish(), done],
    ],
    short: ['<1>', 'Hm', 'Yes', '<1>', 'Hm', 'No', 'step_finish', 'done'],
    text: 'No',
  },
  {
    name: 'a tool instead of words',
    tellings: [
      [start(), text('Let me')],
      [start(), tool('running'), tool('completed'), finish(), start(2), text('Done.'), finish(2), done],
    ],
    short: ['<1>', 'Let me', '<1>', 'running', 'completed', 'step_finish', '<2>', 'Done.', 'step_finish', 'done'],
    text: 'Done.',
  },
  {
    name: 'only the step that broke off is begun anew',
    tellings: [
      [start(), text('A. '), tool('running'), tool('completed'), finish(), start(2), text('B')],
      [start(), text('A. '), tool('running'), tool('completed'), finish(), start(2), text('C'), finish(2), done],
    ],
    short: ['<1>', 'A. ', 'running', 'completed', 'step_finish', '<2>', 'B', '<2>', 'C', 'step_finish', 'done'],
    text: 'A. C',
  },
  {
    name: 'a step that is never written',
    tellings: [[start(), text('Let me')], [failed]],
    short: ['<1>', 'Let me', '<1>', 'error'],
    text: '',
  },
  {
    name: 'a server that begins it anew in one telling, and is then left',
    tellings: [
      [start(), text('The sea'), start(), text('A hill')],
      [start(), text('A hill.'), finish(), done],
    ],
    short: ['<1>', 'The sea', '<1>', 'A hill', '.', 'step_finish', 'done'],
    text: 'A hill.',
  },
];

for (const { name, tellings, short, text: whole } of cases)
  test(`told again: ${name}`, () => assert.deepEqual(given(...tellings), { short, text: whole }));

test('whatever was given before, the text is that of the last telling', () => {
  const words = fc.array(fc.constantFrom('a', 'b', 'aa', 'ab'), { maxLength: 6 });
  fc.assert(
    fc.property(fc.array(fc.tuple(words, words), { minLength: 1, maxLength: 4 }), (tellings) => {
      const told = tellings.map(([first, second], index) => {
        const isLast = index === tellings.length - 1;
        const events = [start(), ...first.map(text), ...(isLast || second.length > 0 ? [finish(), start(2), ...second.map(text)] : [])];
        return isLast ? [...events, finish(2), done] : events;
      });
      assert.equal(given(...told).text, tellings.at(-1)?.flat().join(''));
    }),
  );
});
