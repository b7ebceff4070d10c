import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { LiveFragment, NewEvent, SessionUpdate } from '../../../src/session/events.ts';
import { isStored } from '../../../src/session/events.ts';
import { numberEvents } from '../../../src/session/log.ts';
import { frameText, NativeProjector } from '../../../src/surfaces/native/project.ts';

const usage = { input: 3, output: 2, cachedInput: 0 };
const zero = { input: 0, output: 0, cachedInput: 0 };
const received = (thinking = false): NewEvent => ({
  type: 'message-received',
  data: { messageId: 'msg_u', text: 'hi', ...(thinking ? { thinking } : {}) },
});
const started: NewEvent = { type: 'turn-started', data: { agent: 'main' } };
const said = (text: string, step = 1): NewEvent => ({
  type: 'message-produced',
  data: { messageId: `msg_${step}`, text, step, agent: 'main' },
});
const thought = (text: string): NewEvent => ({ type: 'reasoning-produced', data: { messageId: 'msg_r', text, step: 1 } });
const called = (callId: string, last = true): NewEvent => ({
  type: 'tool-called',
  data: { callId, tool: 'bash', input: { command: 'ls' }, step: 1, ...(last ? { stepUsage: usage } : {}) },
});
const finished = (callId: string, more = {}): NewEvent => ({
  type: 'tool-finished',
  data: { callId, tool: 'bash', output: 'out', isError: false, ...more },
});
const ended = (more = {}): NewEvent => ({
  type: 'turn-ended',
  data: { stopReason: 'end_turn', usage, step: 1, stepUsage: usage, ...more },
});
const wire = { input_tokens: 3, output_tokens: 2, total_tokens: 5 };

const project = (updates: SessionUpdate[]) => {
  const projector = new NativeProjector();
  return updates.flatMap((update) => projector.project(update));
};
const stored = (...events: NewEvent[]) => numberEvents(events, 'turn_1', 1, new Date(0));
const short = (events: NewEvent[]) => project(stored(...events)).map(({ type, data }) => [type, data]);

const start = ['step_start', { step: 1, agent: 'main' }];
const finish = (reason: string, counted = wire) => ['step_finish', { step: 1, finish_reason: reason, usage: counted }];
const use = (id: string, state: string, output?: string) => [
  'tool_use',
  { part: { type: 'tool_use', id, tool: 'bash', input: { command: 'ls' }, state, ...(output === undefined ? {} : { output }) } },
];
const nothing = { input_tokens: 0, output_tokens: 0, total_tokens: 0 };

const table: { name: string; events: NewEvent[]; frames: unknown[] }[] = [
  {
    name: 'a plain answer',
    events: [received(), started, said('Hello'), ended()],
    frames: [start, ['text', { part: { type: 'text', text: 'Hello' } }], finish('stop'), ['done', { usage: wire }]],
  },
  {
    name: 'text in two steps, with a blank line between them',
    events: [received(), started, said('One'), called('call_1'), finished('call_1'), said('', 2), said('Two', 3), ended()],
    frames: [
      start,
      ['text', { part: { type: 'text', text: 'One' } }],
      use('call_1', 'running'),
      use('call_1', 'completed', 'out'),
      finish('tool_calls'),
      ['step_start', { step: 2, agent: 'main' }],
      ['step_start', { step: 3, agent: 'main' }],
      ['text', { part: { type: 'text', text: '\n\nTwo' } }],
      ['step_finish', { step: 3, finish_reason: 'stop', usage: wire }],
      ['done', { usage: wire }],
    ],
  },
  {
    name: 'reasoning that nobody asked for',
    events: [received(), started, thought('Hm'), said('Hello'), ended()],
    frames: [start, ['text', { part: { type: 'text', text: 'Hello' } }], finish('stop'), ['done', { usage: wire }]],
  },
  {
    name: 'reasoning that was asked for',
    events: [received(true), started, thought('Hm'), said('Hello'), ended()],
    frames: [
      start,
      ['reasoning', { part: { type: 'reasoning', text: 'Hm' } }],
      ['text', { part: { type: 'text', text: 'Hello' } }],
      finish('stop'),
      ['done', { usage: wire }],
    ],
  },
  {
    name: 'two calls of one step',
    events: [received(), started, called('call_1', false), called('call_2'), finished('call_1'), finished('call_2', { isError: true })],
    frames: [
      start,
      use('call_1', 'running'),
      use('call_2', 'running'),
      use('call_1', 'completed', 'out'),
      use('call_2', 'error', 'out'),
      finish('tool_calls'),
    ],
  },
  {
    name: 'a denied call marks the end',
    events: [
      received(),
      started,
      called('call_1'),
      finished('call_1', { isError: true, notRun: 'denied' }),
      ended({ deniedRequestId: 'req_1' }),
    ],
    frames: [
      start,
      use('call_1', 'running'),
      use('call_1', 'denied', 'out'),
      finish('tool_calls'),
      ['done', { usage: wire, denied: true, request_id: 'req_1' }],
    ],
  },
  {
    name: 'an interrupted turn',
    events: [received(), started, said('Hel'), ended({ stopReason: 'interrupted', stepUsage: zero })],
    frames: [
      start,
      ['text', { part: { type: 'text', text: 'Hel' } }],
      finish('interrupted', nothing),
      ['done', { usage: wire, stop_reason: 'interrupted' }],
    ],
  },
  {
    name: 'a failed turn',
    events: [received(), started, { type: 'turn-failed', data: { code: 'overloaded', message: 'Busy.', provider: 'openai', usage } }],
    frames: [['error', { code: 'overloaded', provider: 'openai', message: 'Busy.' }]],
  },
  {
    name: 'what only the log wants to know',
    events: [
      received(),
      started,
      { type: 'interrupt-requested', data: { reason: 'user' } },
      { type: 'context-condensed', data: { throughSeq: 1, summary: null } },
      { type: 'turn-resumed', data: { agent: 'main' } },
      { type: 'approval-resolved', data: { requestId: 'req_1', callId: 'call_1', decision: 'deny' } },
    ],
    frames: [],
  },
];

for (const { name, events, frames } of table) test(`native frames of ${name}`, () => assert.deepEqual(short(events), frames));

test('a frame is an event line and a data line; done names no session', () => {
  const text = frameText({ type: 'text', data: { part: { type: 'text', text: 'a\nb' } } }, 'ses_1');
  assert.equal(text, 'event: text\ndata: {"type":"text","session_id":"ses_1","data":{"part":{"type":"text","text":"a\\nb"}}}\n\n');
  assert.equal(frameText({ type: 'done', data: {} }, 'ses_1'), 'event: done\ndata: {"type":"done","data":{}}\n\n');
});

test('whatever of a message was shown live, the sum of its frames is the message', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ minLength: 1 }), { minLength: 1, maxLength: 8 }), fc.nat(8), fc.nat(8), (pieces, from, count) => {
      const whole = pieces.join('');
      let offset = 0;
      const live = pieces.map((text): LiveFragment => {
        const fragment = { type: 'text-delta' as const, turnId: 'turn_1', messageId: 'msg_1', step: 1, agent: 'main', offset, text };
        offset += text.length;
        return fragment;
      });
      const updates = [
        ...stored(received(), started),
        ...live.slice(from, from + count),
        ...numberEvents([said(whole)], 'turn_1', 3, new Date(0)),
      ];
      const texts = project(updates).flatMap(({ type, data }) => (type === 'text' ? [data] : []));
      assert.equal(texts.map((data) => JSON.parse(JSON.stringify(data)).part.text).join(''), whole);
    }),
  );
});

test('live and replayed turns have the same frames but for how the text is cut', () => {
  const events = stored(received(), started, called('call_1'), finished('call_1'), said('Hello there', 2), ended({ step: 2 }));
  const live: LiveFragment[] = ['Hello ', 'there'].map((text, index) => ({
    type: 'text-delta',
    turnId: 'turn_1',
    messageId: 'msg_2',
    step: 2,
    agent: 'main',
    offset: index * 6,
    text,
  }));
  const streamed = project([...events.slice(0, 4), ...live, ...events.slice(4)]);
  const replayed = project(events);
  assert.ok(events.every(isStored));
  const merge = (frames: ReturnType<typeof project>) => [
    ...new Set(frames.map(({ type, data }) => (type === 'text' ? 'text' : JSON.stringify([type, data])))),
  ];
  assert.deepEqual(merge(streamed), merge(replayed));
});
