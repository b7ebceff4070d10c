// The conversation as a model is shown it, made from the log alone.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buildPrompt } from '../../../src/harness/prompt.ts';
import type { NewEvent } from '../../../src/session/events.ts';
import { numberEvents } from '../../../src/session/log.ts';
import { foldSession, type SessionState } from '../../../src/session/state.ts';

const turn = (...events: NewEvent[]): SessionState => foldSession(numberEvents(events, 'turn_1', 1, new Date(0)));
const message: NewEvent = { type: 'message-received', data: { messageId: 'msg_1', text: 'hi' } };
const called = (id: string): NewEvent => ({ type: 'tool-called', data: { callId: id, tool: 'bash', input: {}, step: 1 } });
const finished = (id: string): NewEvent => ({
  type: 'tool-finished',
  data: { callId: id, tool: 'bash', output: 'done', isError: false },
});
const noted: NewEvent = { type: 'message-received', data: { messageId: 'msg_2', text: 'psst', silent: true } };

test('the model is shown the conversation with who speaks, what was thought, called and found, and a result for every call', () => {
  const providerMetadata = { signature: 'abc' };
  const context = (['user', 'assistant', 'system'] as const).map((role) => ({ role, text: `of ${role}` }));
  const events: NewEvent[] = [
    { type: 'context-condensed', data: { throughSeq: 0, summary: 'Ada likes tea.' } },
    { type: 'message-received', data: { messageId: 'msg_0', text: 'hi', context, participantName: 'Ada', files: ['a.txt'] } },
    { type: 'reasoning-produced', data: { messageId: 'msg_1', text: 'Hm.', step: 1, providerMetadata } },
    { type: 'message-produced', data: { messageId: 'msg_2', text: 'Let me see.', step: 1, agent: 'main' } },
    { type: 'tool-called', data: { callId: 'one', tool: 'bash', input: 'ls', step: 1, providerMetadata } },
    called('two'),
    { type: 'tool-finished', data: { callId: 'one', tool: 'bash', output: 'No.', isError: true } },
    message,
  ];
  assert.deepEqual(buildPrompt(turn(...events)), [
    { role: 'user', text: 'Summary of the conversation before this point:\nAda likes tea.' },
    { role: 'user', text: 'of user' },
    { role: 'assistant', parts: [{ type: 'text', text: 'of assistant' }] },
    { role: 'user', text: '[system] of system', told: true },
    { role: 'user', text: 'hi', name: 'Ada', files: ['a.txt'] },
    {
      role: 'assistant',
      parts: [
        { type: 'reasoning', text: 'Hm.', providerMetadata },
        { type: 'text', text: 'Let me see.' },
        { type: 'tool-call', callId: 'one', tool: 'bash', input: 'ls', providerMetadata },
        { type: 'tool-call', callId: 'two', tool: 'bash', input: {} },
      ],
    },
    {
      role: 'tool',
      results: [
        { callId: 'one', tool: 'bash', output: 'No.', isError: true },
        { callId: 'two', tool: 'bash', output: 'The call did not finish.', isError: true },
      ],
    },
    { role: 'assistant', parts: [{ type: 'text', text: '[The turn ended here.]' }] },
    { role: 'user', text: 'hi' },
  ]);
});

test('a conversation that a client begins with its own greeting has a user before it', () => {
  const context = [{ role: 'assistant' as const, text: 'How can I help?' }];
  const greeted: NewEvent = { type: 'message-received', data: { messageId: 'msg_0', text: 'hi', context } };
  assert.deepEqual(buildPrompt(turn(greeted)), [
    { role: 'user', text: '[The conversation begins here.]', told: true },
    { role: 'assistant', parts: [{ type: 'text', text: 'How can I help?' }] },
    { role: 'user', text: 'hi' },
  ]);
});

test('what was only noted in the middle of a turn is shown with the next message, and never between a call and its result', () => {
  const rolesOf = (...events: NewEvent[]) => buildPrompt(turn(...events)).map((shown) => (shown.role === 'user' ? shown.text : shown.role));
  const events = [message, called('call_1'), called('call_2'), finished('call_1'), noted, finished('call_2')];
  assert.deepEqual(rolesOf(...events), ['hi', 'assistant', 'tool']);
  assert.deepEqual(rolesOf(...events, message), ['hi', 'assistant', 'tool', 'assistant', 'psst', 'hi']);
});

test('a turn that ended on a result, or in thoughts about it, is closed with words before the next message, and no other', () => {
  const thought: NewEvent = { type: 'reasoning-produced', data: { messageId: 'msg_3', text: 'Hm.', step: 2 } };
  const produced = (text: string): NewEvent => ({ type: 'message-produced', data: { messageId: 'msg_4', text, step: 2, agent: 'main' } });
  const used = [message, called('call_1'), finished('call_1')];
  const isClosed = (...events: NewEvent[]) => JSON.stringify(buildPrompt(turn(...events))).includes('[The turn ended here.]');
  for (const events of [used, [...used, thought], [...used, thought, produced(' \n')]])
    assert.deepEqual([isClosed(...events), isClosed(...events, message)], [false, true]);
  for (const events of [[message], [message, thought], [...used, produced('Done.')]]) assert.equal(isClosed(...events, message), false);
});

test('the model is told who speaks, and which messages only inform it', () => {
  const context = [{ role: 'system' as const, text: 'Be brief.' }];
  const said: NewEvent = { type: 'message-received', data: { messageId: 'msg_9', text: 'Hello', participantName: 'Bo', context } };
  const heard: NewEvent = { type: 'message-received', data: { messageId: 'msg_8', text: 'psst', participantName: 'Al', silent: true } };
  assert.deepEqual(buildPrompt(turn(heard, said)), [
    { role: 'user', text: 'psst', name: 'Al', told: true },
    { role: 'user', text: '[system] Be brief.', told: true },
    { role: 'user', text: 'Hello', name: 'Bo' },
  ]);
});
