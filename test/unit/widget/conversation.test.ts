// What the widget shows is a fold of the log: live, replayed or joined in the middle, it comes to the same.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LoggedEvent, ManagedEvent } from '../../../client/src/index.ts';
import { addEvent, type Conversation, emptyConversation, openQuestion } from '../../../widget/src/conversation.ts';

type Entry = LoggedEvent extends infer Event
  ? Event extends LoggedEvent
    ? Omit<Event, 'seq' | 'session_id' | 'created_at' | 'turn_id'>
    : never
  : never;

const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
const question = {
  request_id: 'req_1',
  kind: 'tool_use',
  tool: 'bash',
  message: 'Run it?',
  options: ['approve_once' as const, 'deny' as const],
};

const log: LoggedEvent[] = numbered([
  { type: 'user.message', message_id: 'msg_1', text: 'Hello', files: ['uploads/a.txt'] },
  { type: 'session.status_running', agent: 'main' },
  { type: 'agent.thinking', text: 'hm' },
  { type: 'agent.message', message_id: 'msg_2', agent: 'main', text: 'One moment' },
  { type: 'agent.tool_use', tool_use_id: 'call_1', tool: 'bash', input: { command: 'ls' } },
  {
    type: 'session.status_idle',
    stop_reason: 'requires_action',
    request_id: 'req_1',
    tool_use_id: 'call_1',
    pending_input: question,
    usage,
  },
  { type: 'user.tool_confirmation', request_id: 'req_1', tool_use_id: 'call_1', result: 'deny' },
  { type: 'session.status_running', agent: 'main' },
  { type: 'agent.tool_result', tool_use_id: 'call_1', tool: 'bash', output: 'denied', is_error: true },
  { type: 'session.error', code: 'overloaded', message: 'Too busy', usage },
]);

test('the log becomes messages, tools, answered questions and notices', () => {
  assert.deepEqual(fold(log).items, [
    { kind: 'user', id: 'msg_1', text: 'Hello', files: ['uploads/a.txt'] },
    { kind: 'agent', id: 'msg_2', text: 'One moment' },
    { kind: 'tool', id: 'call_1', tool: 'bash', input: { command: 'ls' }, output: 'denied', failed: true },
    { kind: 'approval', id: 'req_1', question, input: { command: 'ls' }, decision: 'deny' },
    { kind: 'failure', id: '10', text: 'Too busy' },
  ]);
});

test('an answer without words is no message', () => {
  const silent = numbered([
    { type: 'user.message', message_id: 'msg_1', text: 'Hello' },
    { type: 'session.status_running', agent: 'main' },
    { type: 'agent.message', message_id: 'msg_2', agent: 'main', text: '' },
    { type: 'session.status_idle', stop_reason: 'end_turn', usage },
  ]);
  assert.deepEqual(fold(silent), { ...emptyConversation(), items: [{ kind: 'user', id: 'msg_1', text: 'Hello', files: [] }], lastSeq: 4 });
});

test('a conversation of 20,000 calls is read in a moment', () => {
  const calls = Array.from({ length: 20_000 }, (_, index): Entry[] => [
    { type: 'agent.tool_use', tool_use_id: `call_${index}`, tool: 'files', input: {} },
    { type: 'agent.tool_result', tool_use_id: `call_${index}`, tool: 'files', output: 'read', is_error: false },
  ]);
  const began = performance.now();
  const { items } = fold(numbered(calls.flat()));
  const milliseconds = performance.now() - began;
  assert.ok(items.every((item) => item.kind === 'tool' && item.output === 'read'));
  assert.ok(milliseconds < 1_000, `${milliseconds} ms`);
});

test('a question is open until it is answered, and the agent runs until it rests', () => {
  const states = log.map((_event, index) => {
    const conversation = fold(log.slice(0, index + 1));
    return `${conversation.running ? 'running' : 'resting'}${openQuestion(conversation) ? ', asks' : ''}`;
  });
  assert.deepEqual(states, [
    'resting',
    'running',
    'running',
    'running',
    'running',
    'resting, asks',
    'resting',
    'running',
    'running',
    'resting',
  ]);
});

test('a question whose turn was stopped is no longer open', () => {
  const stopped = fold([...log.slice(0, 6), ...numbered([{ type: 'user.interrupt' }])]);
  assert.equal(openQuestion(stopped), undefined);
  assert.deepEqual(stopped.items.at(-1), { kind: 'approval', id: 'req_1', question, input: { command: 'ls' }, decision: 'withdrawn' });
});

test('deltas are a draft that the whole message replaces; another message begins another draft', () => {
  const delta = (message_id: string, text: string): ManagedEvent => ({ type: 'agent.message_delta', session_id: 's', message_id, text });
  const live = [...log.slice(0, 3), delta('msg_0', 'Wai'), delta('msg_2', 'One '), delta('msg_2', 'mom')];
  assert.deepEqual(fold(live).draft, { id: 'msg_2', text: 'One mom' });
  assert.deepEqual(fold([...live, ...log.slice(3)]), fold(log));
});

test('what was being written when the server died is gone when the agent goes on with a tool', () => {
  const lost: ManagedEvent = { type: 'agent.message_delta', session_id: 's', message_id: 'msg_0', text: 'Wai' };
  assert.equal(fold([...log.slice(0, 3), lost, ...log.slice(4, 5)]).draft, undefined);
});

function fold(events: ManagedEvent[]): Conversation {
  const conversation = emptyConversation();
  for (const event of events) addEvent(conversation, event);
  return conversation;
}

function numbered(entries: Entry[]): LoggedEvent[] {
  return entries.map((entry, index) => ({ ...entry, seq: index + 1, session_id: 's', created_at: '', turn_id: 't' }));
}
