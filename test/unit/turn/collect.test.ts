import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buildPrompt } from '../../../src/harness/prompt.ts';
import { newId } from '../../../src/ids.ts';
import type { NewEvent, StoredEvent } from '../../../src/session/events.ts';
import { numberEvents } from '../../../src/session/log.ts';
import { emptyState, type SessionState } from '../../../src/session/state.ts';
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

test('the answer has the id of its first message, a blank line between its texts, and no part that says nothing', async () => {
  const said = (messageId: string, text: string): NewEvent => ({
    type: 'message-produced',
    data: { messageId, text, step: 1, agent: 'main' },
  });
  const usage = { input: 1, output: 1, cachedInput: 0 };
  const ended: NewEvent = { type: 'turn-ended', data: { stopReason: 'end_turn', usage, step: 2, stepUsage: usage } };
  const events = numberEvents([said('msg_1', 'One'), said('msg_2', ''), said('msg_3', 'two'), ended], 'turn_1', 1, new Date(0));
  const { assistantMessageId, text, parts } = await collectTurn(once(events));
  assert.deepEqual([assistantMessageId, text], ['msg_1', 'One\n\ntwo']);
  assert.deepEqual(
    parts.map((part) => part.type === 'text' && part.text),
    ['One', 'two'],
  );
});

test('four times as many calls take about four times as long, to collect and to show to the model', async () => {
  const usage = { input: 1, output: 1, cachedInput: 0 };
  const ended: NewEvent = { type: 'turn-ended', data: { stopReason: 'end_turn', usage, step: 1, stepUsage: usage } };
  const callsOf = (count: number) => Array.from({ length: count }, () => ({ callId: newId('call_'), tool: 'files', input: {} }));
  const result = { tool: 'files', output: 'ok', isError: false };
  const eventsOf = (calls: ReturnType<typeof callsOf>): StoredEvent[] => {
    const called = calls.map((call): NewEvent => ({ type: 'tool-called', data: { ...call, step: 1 } }));
    const finished = calls.map(({ callId }): NewEvent => ({ type: 'tool-finished', data: { ...result, callId } }));
    return numberEvents([...called, ...finished, ended], 'turn_1', 1, new Date(0));
  };
  const stateOf = (calls: ReturnType<typeof callsOf>): SessionState => {
    const called = calls.map((call) => ({ ...call, seq: 1, type: 'call' as const, providerMetadata: undefined }));
    const finished = calls.map(({ callId }) => ({ ...result, callId, seq: 1, type: 'result' as const }));
    return { ...emptyState(), entries: [...called, ...finished] };
  };
  const outcome = await collectTurn(once(eventsOf(callsOf(2_000))));
  assert.ok(outcome.parts.length === 2_000 && outcome.parts.every((part) => part.type === 'tool_use' && part.state === 'completed'));
  const [few, many] = [callsOf(8_000), callsOf(32_000)];
  for (const prepare of [
    (calls: typeof few) => () => collectTurn(once(eventsOf(calls))),
    (calls: typeof few) => () => buildPrompt(stateOf(calls)),
  ]) {
    const [first, second] = [await fastest(prepare(few)), await fastest(prepare(many))];
    // Beyond that, what collecting garbage takes.
    assert.ok(second < 8 * first + 50, `${first} ms, and ${second} ms`);
  }
});

/** In milliseconds of this thread's own time: what else the machine does is none of it. */
async function fastest(work: () => unknown): Promise<number> {
  let best = Number.POSITIVE_INFINITY;
  for (let attempt = 0; attempt < 5; attempt += 1) {
    const begun = process.threadCpuUsage();
    await work();
    const { user, system } = process.threadCpuUsage(begun);
    best = Math.min(best, (user + system) / 1_000);
  }
  return best;
}
