// What a turn is written down as when it goes on, pauses and ends: messages, turns and tokens, each counted once.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CommitPoint } from '../../../src/harness/turn-world.ts';
import type { ApprovalRequested, NewEvent } from '../../../src/session/events.ts';
import { numberEvents } from '../../../src/session/log.ts';
import { foldSession } from '../../../src/session/state.ts';
import { turnFailure } from '../../../src/turn/failure.ts';
import { advanceOperation } from '../../../src/turn/settle.ts';

const stepUsage = { input: 10, output: 2, cachedInput: 3 };
const request: ApprovalRequested = {
  requestId: 'req_1',
  callId: 'call_1',
  kind: 'tool_use',
  tool: 'bash',
  input: {},
  message: 'Run it?',
  options: ['deny'],
  pattern: '*',
};
const begun: NewEvent[] = [
  { type: 'message-received', data: { messageId: 'msg_1', text: 'Hi' } },
  { type: 'turn-started', data: { agent: 'main' } },
];
const called: NewEvent = { type: 'tool-called', data: { callId: 'call_1', tool: 'bash', input: {}, step: 1, stepUsage } };
const asked: NewEvent = { type: 'approval-requested', data: request };
const said = (text: string): NewEvent => ({ type: 'message-produced', data: { messageId: 'msg_2', text, step: 1, agent: 'main' } });

function operation(before: NewEvent[], step: CommitPoint) {
  const state = foldSession(numberEvents(before, 'turn_1', 1, new Date(0)));
  return advanceOperation(step, { turn: 'turn_1', session: 'ses_1', org: 1 }, state, {
    agentSlug: 'helper',
    price: (agent) => ({ model: agent, costMicros: 12, creditMicros: 0 }),
  });
}

test('an answer is one message however often it is gone on with, and what says nothing is none', () => {
  const messages = (before: NewEvent[], events: NewEvent[]) => operation(before, { type: 'commit', events }).messages;
  assert.equal(messages(begun, [said('One moment.'), called]), 1);
  assert.equal(messages([...begun, said('One moment.')], [said('Done.')]), 0, 'it has just spoken, and is counted');
  assert.equal(messages(begun, [called]), undefined, 'nobody spoke: the time of the last message stays');
  assert.equal(messages(begun, [said('')]), undefined);
});

test('a turn is counted when it ends and not when it pauses, and its tokens when they were used', () => {
  const paused = operation([...begun, called], { type: 'pause', events: [asked], request });
  const used = { model: 'main', input: 10, output: 2, cached: 3, cost_micros: 12, credit_micros: 0 };
  assert.deepEqual(paused.used, { ...used, turns: 0 });
  const usage = { input: 15, output: 6, cachedInput: 3 };
  const ended: NewEvent = { type: 'turn-ended', data: { stopReason: 'end_turn', usage, step: 2, stepUsage } };
  const after = operation([...begun, called, asked], { type: 'end', events: [ended] });
  assert.deepEqual(after.used, { ...used, turns: 1, input: 5, output: 4, cached: 0 });
});

test('what each sub-agent used is charged at the price of its own model, and the turn is counted with the last', () => {
  const handed: NewEvent = {
    type: 'tool-finished',
    data: { callId: 'call_1', tool: 'handoff', output: '', isError: false, handoff: 'billing' },
  };
  const usage = { input: 15, output: 6, cachedInput: 3 };
  const failed: NewEvent = { type: 'turn-failed', data: { code: 'overloaded', message: 'Later.', usage } };
  assert.deepEqual(operation([...begun, called, handed], { type: 'end', events: [failed] }).used, [
    { model: 'main', turns: 0, input: 10, output: 2, cached: 3, cost_micros: 12, credit_micros: 0 },
    { model: 'billing', turns: 1, input: 5, output: 4, cached: 0, cost_micros: 12, credit_micros: 0 },
  ]);
  const { kind, currentAgent } = { currentAgent: undefined, ...operation([...begun, called], { type: 'commit', events: [handed] }) };
  assert.deepEqual([kind, currentAgent], ['append', 'billing']);
});

test('a failure is the server’s own only where nobody else can be blamed', () => {
  const kindOf = (code: string) => turnFailure({ code, message: '', usage: stepUsage }).kind;
  assert.deepEqual(
    ['internal_error', 'turn_timeout', 'broken_stream', 'rate_limited', 'overloaded', 'byok_key_rejected', 'context_length_exceeded'].map(
      kindOf,
    ),
    ['internal', 'upstream', 'upstream', 'rate-limited', 'unavailable', 'invalid', 'invalid'],
  );
});
