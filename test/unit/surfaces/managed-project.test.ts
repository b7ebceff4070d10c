import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { NewEvent } from '../../../src/session/events.ts';
import { closingFrame, deltaFrame, frameText, logEntry } from '../../../src/surfaces/managed-agents/project.ts';
import { isRest } from '../../../src/turn/watch.ts';

const at = new Date('2026-11-15T10:00:00.000Z');
const usage = { input: 3, output: 4, cachedInput: 0 };
const shownUsage = { input_tokens: 3, output_tokens: 4, total_tokens: 7 };
const approval = {
  requestId: 'req_1',
  callId: 'call_1',
  kind: 'tool_use' as const,
  tool: 'bash',
  message: 'Run it?',
  options: ['deny' as const],
};

const table: { event: NewEvent; entry: Record<string, unknown> }[] = [
  {
    event: {
      type: 'message-received',
      data: { messageId: 'msg_1', text: 'Hi', files: ['uploads/a'], participantName: 'Bo', participantType: 'ai' },
    },
    entry: { type: 'user.message', message_id: 'msg_1', text: 'Hi', files: ['uploads/a'], participant_name: 'Bo', participant_type: 'ai' },
  },
  {
    event: { type: 'message-received', data: { messageId: 'msg_1', text: 'Hi', thinking: true, unattended: true, context: [] } },
    entry: { type: 'user.message', message_id: 'msg_1', text: 'Hi' },
  },
  { event: { type: 'turn-started', data: { agent: 'main' } }, entry: { type: 'session.status_running', agent: 'main' } },
  { event: { type: 'turn-resumed', data: { agent: 'main' } }, entry: { type: 'session.status_running', agent: 'main' } },
  {
    event: { type: 'reasoning-produced', data: { messageId: 'msg_2', text: 'Hm', step: 1, providerMetadata: { signature: 'x' } } },
    entry: { type: 'agent.thinking', text: 'Hm' },
  },
  {
    event: { type: 'message-produced', data: { messageId: 'msg_3', text: 'Hello', step: 1, agent: 'main' } },
    entry: { type: 'agent.message', message_id: 'msg_3', agent: 'main', text: 'Hello' },
  },
  {
    event: { type: 'message-produced', data: { messageId: 'msg_3', text: 'Hel', step: 1, agent: 'main', partial: true } },
    entry: { type: 'agent.message', message_id: 'msg_3', agent: 'main', text: 'Hel', partial: true },
  },
  {
    event: { type: 'tool-called', data: { callId: 'call_1', tool: 'bash', input: { command: 'ls' }, step: 1, stepUsage: usage } },
    entry: { type: 'agent.tool_use', tool_use_id: 'call_1', tool: 'bash', input: { command: 'ls' } },
  },
  {
    event: { type: 'tool-finished', data: { callId: 'call_1', tool: 'bash', output: 'a', isError: false } },
    entry: { type: 'agent.tool_result', tool_use_id: 'call_1', tool: 'bash', output: 'a', is_error: false },
  },
  {
    event: { type: 'approval-requested', data: { ...approval, input: {}, pattern: '*', usage } },
    entry: {
      type: 'session.status_idle',
      stop_reason: 'requires_action',
      request_id: 'req_1',
      tool_use_id: 'call_1',
      pending_input: { request_id: 'req_1', kind: 'tool_use', tool: 'bash', message: 'Run it?', options: ['deny'] },
      usage: shownUsage,
    },
  },
  {
    event: { type: 'approval-resolved', data: { requestId: 'req_1', callId: 'call_1', decision: 'deny' } },
    entry: { type: 'user.tool_confirmation', request_id: 'req_1', tool_use_id: 'call_1', result: 'deny' },
  },
  { event: { type: 'interrupt-requested', data: { reason: 'stop' } }, entry: { type: 'user.interrupt' } },
  {
    event: { type: 'context-condensed', data: { throughSeq: 9, summary: null } },
    entry: { type: 'session.context_condensed', through_seq: 9, summary: null },
  },
  {
    event: { type: 'turn-ended', data: { stopReason: 'end_turn', usage, step: 1, stepUsage: usage } },
    entry: { type: 'session.status_idle', stop_reason: 'end_turn', usage: shownUsage },
  },
  {
    event: { type: 'turn-ended', data: { stopReason: 'max_steps', usage, step: 1, stepUsage: usage, deniedRequestId: 'req_1' } },
    entry: { type: 'session.status_idle', stop_reason: 'max_steps', denied: true, request_id: 'req_1', usage: shownUsage },
  },
  {
    event: { type: 'turn-ended', data: { stopReason: 'end_turn', usage, step: 1, stepUsage: usage, denied: true } },
    entry: { type: 'session.status_idle', stop_reason: 'end_turn', denied: true, usage: shownUsage },
  },
  {
    event: { type: 'turn-failed', data: { code: 'overloaded', message: 'Busy', provider: 'openai', usage, retryAfterSeconds: 3 } },
    entry: { type: 'session.error', code: 'overloaded', message: 'Busy', provider: 'openai', usage: shownUsage },
  },
];

test('every stored event is exactly one entry of the managed log', () => {
  for (const [index, { event, entry }] of table.entries()) {
    const stored = { ...event, seq: index + 1, turnId: 'turn_1', createdAt: at };
    assert.deepEqual(logEntry(stored, 'ses_1'), {
      seq: index + 1,
      session_id: 'ses_1',
      created_at: '2026-11-15T10:00:00.000+00:00',
      turn_id: 'turn_1',
      ...entry,
    });
  }
});

test('the ends of a turn and its pauses are terminal', () => {
  const terminal = table.filter(({ event }) => isRest(event.type));
  assert.deepEqual(
    terminal.map(({ event }) => event.type),
    ['approval-requested', 'turn-ended', 'turn-ended', 'turn-ended', 'turn-failed'],
  );
});

test('a frame has id, event and data, and a preview has no id', () => {
  const frame = frameText({ type: 'turn-started', data: { agent: 'main' }, seq: 2, turnId: 'turn_1', createdAt: at }, 'ses_1');
  assert.equal(
    frame,
    'id: 2\nevent: session.status_running\ndata: {"seq":2,"type":"session.status_running","session_id":"ses_1",' +
      '"created_at":"2026-11-15T10:00:00.000+00:00","turn_id":"turn_1","agent":"main"}\n\n',
  );
  const fragment = { turnId: 'turn_1', messageId: 'msg_1', step: 1, agent: 'main', offset: 0, text: 'a\nb' };
  assert.equal(
    deltaFrame({ type: 'text-delta', ...fragment }, 'ses_1'),
    'event: agent.message_delta\ndata: {"type":"agent.message_delta","session_id":"ses_1","message_id":"msg_1","text":"a\\nb"}\n\n',
  );
  assert.equal(deltaFrame({ type: 'reasoning-delta', ...fragment }, 'ses_1'), '');
  assert.match(closingFrame('token_expired'), /^event: stream\.closed\ndata: \{"type":"stream\.closed","reason":"token_expired"/);
});
