import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { NewEvent, StoredEvent } from '../../../src/session/events.ts';
import { numberEvents } from '../../../src/session/log.ts';
import { collectTurn } from '../../../src/turn/collect.ts';

async function* once(events: StoredEvent[]) {
  yield events;
}

test('a turn that pauses in its second step has used what both steps used', async () => {
  const called = (callId: string, step: number): NewEvent => ({
    type: 'tool-called',
    data: { callId, tool: 'bash', input: {}, step, stepUsage: { input: 10, output: 2, cachedInput: 0 } },
  });
  const events: NewEvent[] = [
    called('call_1', 1),
    { type: 'tool-finished', data: { callId: 'call_1', tool: 'bash', output: '', isError: false } },
    called('call_2', 2),
    {
      type: 'approval-requested',
      data: { requestId: 'req_1', callId: 'call_2', kind: 'tool_use', tool: 'bash', input: {}, message: '', options: [], pattern: '*' },
    },
  ];
  const outcome = await collectTurn(once(numberEvents(events, 'turn_1', 1, new Date(0))));
  assert.deepEqual(outcome.usage, { input: 20, output: 4, cachedInput: 0 });
});

test('the answer has the id of its first message and no part that says nothing', async () => {
  const said = (messageId: string, text: string): NewEvent => ({
    type: 'message-produced',
    data: { messageId, text, step: 1, agent: 'main' },
  });
  const usage = { input: 1, output: 1, cachedInput: 0 };
  const ended: NewEvent = { type: 'turn-ended', data: { stopReason: 'end_turn', usage, step: 2, stepUsage: usage } };
  const events = numberEvents([said('msg_1', 'One '), said('msg_2', ''), said('msg_3', 'two'), ended], 'turn_1', 1, new Date(0));
  const { assistantMessageId, text, parts } = await collectTurn(once(events));
  assert.deepEqual([assistantMessageId, text], ['msg_1', 'One two']);
  assert.deepEqual(
    parts.map((part) => part.type === 'text' && part.text),
    ['One ', 'two'],
  );
});
