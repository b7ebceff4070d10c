// A turn whose process died in the middle of a message, as someone sees it who watches from another process.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isStored, type LiveFragment, type NewEvent, type SessionUpdate } from '../../../src/session/events.ts';
import { noUsage } from '../../../src/session/usage.ts';
import { ChatProjector } from '../../../src/surfaces/chat-completions/project.ts';
import { NativeProjector } from '../../../src/surfaces/native/project.ts';
import { ResponseAnswer } from '../../../src/surfaces/responses/answer.ts';
import { ResponseProjector } from '../../../src/surfaces/responses/project.ts';
import { responsePlace } from '../../../src/surfaces/responses/response-ids.ts';
import type { Json } from '../../support/json.ts';

const turnId = 'turn_01ARZ3NDEKTSV4RRFFQ69G5FAV';

function live(messageId: string, offset: number, text: string): LiveFragment {
  return { type: 'text-delta', turnId, messageId, step: 1, agent: 'main', offset, text };
}

function stored(...events: NewEvent[]): SessionUpdate[] {
  return events.map((event, index) => ({ ...event, seq: index + 3, turnId, createdAt: new Date(0) }));
}

const message = (messageId: string, text: string): NewEvent => ({
  type: 'message-produced',
  data: { messageId, text, step: 1, agent: 'main' },
});
const end: NewEvent = { type: 'turn-ended', data: { stopReason: 'end_turn', usage: noUsage, step: 1, stepUsage: noUsage } };
const failed: NewEvent = { type: 'turn-failed', data: { code: 'broken_stream', message: 'It broke.', usage: noUsage } };
const call: NewEvent = { type: 'tool-called', data: { callId: 'call_1', tool: 'bash', input: {}, step: 1 } };
const finished: NewEvent = { type: 'tool-finished', data: { callId: 'call_1', tool: 'bash', output: 'ok', isError: false } };
const lost = live('msg_a', 0, 'The sea is ');

const cases: { name: string; updates: SessionUpdate[]; items: [text: string, status: string][]; status?: string }[] = [
  {
    name: 'the same words again: they are shown once, and the message goes on',
    updates: [
      lost,
      live('msg_b', 0, 'The '),
      live('msg_b', 4, 'sea is calm '),
      live('msg_b', 16, 'today.'),
      ...stored(message('msg_b', 'The sea is calm today.'), end),
    ],
    items: [['The sea is calm today.', 'completed']],
  },
  {
    name: 'the same words, of which nothing came while they were written',
    updates: [lost, ...stored(message('msg_b', 'The sea is calm.'), end)],
    items: [['The sea is calm.', 'completed']],
  },
  {
    name: 'other words: what was shown is an item of its own that broke off',
    updates: [
      lost,
      live('msg_b', 0, 'The '),
      live('msg_b', 4, 'hills are green.'),
      ...stored(message('msg_b', 'The hills are green.'), end),
    ],
    items: [
      ['The sea is ', 'incomplete'],
      ['The hills are green.', 'completed'],
    ],
  },
  {
    name: 'fewer words than were shown',
    updates: [lost, live('msg_b', 0, 'The sea'), ...stored(message('msg_b', 'The sea'), end)],
    items: [
      ['The sea is ', 'incomplete'],
      ['The sea', 'completed'],
    ],
  },
  {
    name: 'it dies twice',
    updates: [
      lost,
      live('msg_b', 0, 'The sea'),
      live('msg_c', 0, 'The sea is calm.'),
      ...stored(message('msg_c', 'The sea is calm.'), end),
    ],
    items: [['The sea is calm.', 'completed']],
  },
  {
    name: 'a tool instead of words, and then words',
    updates: [lost, ...stored(call), { ...live('msg_c', 0, 'Done.'), step: 2 }, ...stored(message('msg_c', 'Done.'), end)],
    items: [
      ['The sea is ', 'incomplete'],
      ['Done.', 'completed'],
    ],
  },
  { name: 'it is stopped before it says more', updates: [lost, ...stored(end)], items: [['The sea is ', 'incomplete']] },
  { name: 'it fails before it says more', updates: [lost, ...stored(failed)], items: [['The sea is ', 'incomplete']], status: 'failed' },
];

function framesOf(updates: readonly SessionUpdate[], startingAfter?: number): Json[] {
  const projector = new ResponseProjector(new ResponseAnswer(responsePlace(turnId, 0), 'm', {}), startingAfter);
  let text = projector.begin();
  for (const update of updates) text += projector.project(update);
  return [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data ?? ''));
}

for (const { name, updates, items, status = 'completed' } of cases) {
  test(`responses: ${name}`, () => {
    const frames = framesOf(updates);
    frames.forEach((frame, index) => {
      assert.equal(frame.sequence_number, index);
    });
    const shown = new Map<string, string>();
    const closed: [string, string][] = [];
    for (const { type, item, item_id, delta, text: whole } of frames) {
      if (type === 'response.output_item.added') shown.set(item.id, '');
      if (type === 'response.output_text.delta') shown.set(item_id, `${shown.get(item_id)}${delta}`);
      if (type === 'response.output_text.done') assert.equal(whole, shown.get(item_id), 'the deltas of an item are its text');
      if (type === 'response.output_item.done') closed.push([item.content[0].text, item.status]);
    }
    assert.deepEqual(closed, items);
    const { response } = frames.findLast((frame) => frame.response !== undefined);
    assert.equal(response.status, status);
    assert.deepEqual(
      response.output.map((item: { id: string; content: { text: string }[]; status: string }) => [item.content[0]?.text, item.status]),
      items,
    );
    assert.deepEqual(
      response.output.map(({ id }: { id: string }) => id),
      [...shown.keys()],
    );
  });

  test(`responses, resumed elsewhere: ${name}`, () => {
    const shown = framesOf(updates).at(-1)?.sequence_number;
    const kept = framesOf(updates.filter(isStored));
    const ends = kept.filter(({ type }) => /^(response\.(completed|incomplete|failed)|error)$/.test(type));
    for (let after = 0; after <= shown + 1; after += 1) {
      const rest = framesOf(updates.filter(isStored), after);
      assert.deepEqual(rest, after < kept.length - ends.length ? kept.slice(after + 1) : ends, `after ${after}`);
    }
  });

  test(`chat and native: ${name}`, () => {
    const chat = new ChatProjector(turnId, 'm');
    const native = new NativeProjector();
    let said = '';
    let spoken = '';
    for (const update of updates) {
      for (const [, data] of chat.project(update).matchAll(/^data: (\{.*)$/gm)) {
        const { choices = [] } = JSON.parse(data ?? '');
        said += choices[0]?.delta.content ?? '';
      }
      for (const frame of native.project(update)) if (frame.type === 'text') spoken += (frame.data.part as { text: string }).text;
    }
    const texts = items.map(([text]) => text);
    assert.deepEqual([said, spoken], [texts.join('\n\n'), texts.join('')], 'in chat, what broke off is set apart from what follows');
  });
}

const thinking: NewEvent = { type: 'message-received', data: { messageId: 'msg_u', text: 'hi', thinking: true } };
const thought = (messageId: string, text: string): NewEvent => ({ type: 'reasoning-produced', data: { messageId, text, step: 1 } });
const think = (messageId: string, text: string): LiveFragment => ({ ...live(messageId, 0, text), type: 'reasoning-delta' });

const begun: { name: string; updates: SessionUpdate[]; frames: string[] }[] = [
  {
    name: 'other words',
    updates: [lost, live('msg_b', 0, 'A hill.'), ...stored(message('msg_b', 'A hill.'), end)],
    frames: ['<1>', 'The sea is ', '<1>', 'A hill.', 'step_finish', 'done'],
  },
  {
    name: 'a tool instead of words',
    updates: [lost, ...stored(call)],
    frames: ['<1>', 'The sea is ', '<1>', 'tool_use'],
  },
  { name: 'nothing more', updates: [lost, ...stored(end)], frames: ['<1>', 'The sea is ', '<1>', 'step_finish', 'done'] },
  { name: 'a failure', updates: [lost, ...stored(failed)], frames: ['<1>', 'The sea is ', '<1>', 'error'] },
  {
    name: 'thoughts that broke off, and the same words',
    updates: [
      ...stored(thinking),
      think('msg_r', 'Hm'),
      think('msg_s', 'Ah'),
      live('msg_b', 0, 'Yes.'),
      ...stored(thought('msg_s', 'Ah'), message('msg_b', 'Yes.'), end),
    ],
    frames: ['<1>', 'Hm', 'Ah', 'Yes.', '<1>', 'Ah', 'Yes.', 'step_finish', 'done'],
  },
  {
    name: 'other words, with the thoughts that led to them',
    updates: [
      ...stored(thinking),
      think('msg_r', 'Hm'),
      lost,
      think('msg_s', 'Ah'),
      live('msg_b', 0, 'A hill.'),
      ...stored(thought('msg_s', 'Ah'), message('msg_b', 'A hill.'), end),
    ],
    frames: ['<1>', 'Hm', 'The sea is ', 'Ah', '<1>', 'Ah', 'A hill.', 'step_finish', 'done'],
  },
  {
    name: 'other words, the last of which come after the thoughts that led to them were stored',
    updates: [
      ...stored(thinking),
      think('msg_r', 'Hm'),
      lost,
      think('msg_s', 'Ah'),
      live('msg_b', 0, 'The '),
      ...stored(thought('msg_s', 'Ah')),
      live('msg_b', 4, 'hills.'),
      ...stored(message('msg_b', 'The hills.'), end),
    ],
    frames: ['<1>', 'Hm', 'The sea is ', 'Ah', '<1>', 'Ah', 'The hills.', 'step_finish', 'done'],
  },
  {
    name: 'an answer without words, after a step that had some',
    updates: [
      ...stored(message('msg_1', 'Look:'), call, finished),
      { ...lost, step: 2 },
      ...stored({ type: 'message-produced', data: { messageId: 'msg_b', text: '', step: 2, agent: 'main' } }, end),
    ],
    frames: ['<1>', 'Look:', 'tool_use', 'tool_use', 'step_finish', '<2>', '\n\nThe sea is ', '<2>', 'step_finish', 'done'],
  },
  {
    name: 'two thoughts that did not break off',
    updates: [
      ...stored(thinking),
      think('msg_r', 'Hm. '),
      think('msg_s', 'Ah'),
      live('msg_b', 0, 'Yes.'),
      ...stored(thought('msg_r', 'Hm. '), thought('msg_s', 'Ah'), message('msg_b', 'Yes.'), end),
    ],
    frames: ['<1>', 'Hm. ', 'Ah', 'Yes.', 'step_finish', 'done'],
  },
];

for (const { name, updates, frames } of begun)
  test(`native: a step that goes on with ${name} begins anew where what was shown is void`, () => {
    const native = new NativeProjector();
    const short = updates.flatMap((update) =>
      native.project(update).map(({ type, data }) => {
        if (type === 'step_start') return `<${data.step}>`;
        return type === 'text' || type === 'reasoning' ? (data.part as { text: string }).text : type;
      }),
    );
    assert.deepEqual(short, frames);
  });
