// Where the time of a turn went, as the dashboard's timeline and transcript tell it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { foldConversation } from '../../../dashboard/src/conversation/fold.ts';
import { parseFrame } from '../../../dashboard/src/conversation/log-event.ts';
import { spansOf } from '../../../dashboard/src/conversation/spans.ts';

const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
const question = { request_id: 'req_1', kind: 'tool_use', tool: 'bash', message: 'Run it?', options: ['deny'] };

/** One second apart. */
const log = [
  { turn_id: 't1', type: 'user.message', text: 'Look\nfor it' },
  { turn_id: 't1', type: 'session.status_running' },
  { turn_id: 't1', type: 'agent.tool_use', tool_use_id: 'c1', tool: 'bash', input: {} },
  { turn_id: 't1', type: 'session.status_idle', stop_reason: 'requires_action', tool_use_id: 'c1', pending_input: question, usage },
  { turn_id: 'n1', type: 'user.message', text: 'A word from another gateway' },
  { turn_id: 't1', type: 'user.tool_confirmation', request_id: 'req_1', tool_use_id: 'c1', result: 'approve_once' },
  { turn_id: 't1', type: 'session.status_running' },
  { turn_id: 't1', type: 'agent.tool_result', tool_use_id: 'c1', output: 'x', is_error: false },
  { turn_id: 't1', type: 'session.status_idle', stop_reason: 'end_turn', usage },
  { turn_id: 'n2', type: 'user.message', text: 'And one behind it' },
].map((entry, index) => {
  const event = parseFrame(JSON.stringify({ ...entry, seq: index + 1, created_at: new Date(index * 1000).toISOString() }));
  assert.ok(event !== undefined && 'seq' in event);
  return event;
});

test('what another participant says in the middle of a turn, or behind it, is no turn', () => {
  const spans = spansOf(log).map(({ kind, label, start, end, open }) => [kind, label, start / 1000, end / 1000, open]);
  assert.deepEqual(spans, [
    ['turn', 'Look', 0, 8, false],
    ['model', 'Decides', 1, 2, false],
    ['tool', 'bash', 5, 7, false],
    ['wait', 'Approval', 3, 5, false],
  ]);
});

test('a turn takes from its start to its end, whatever is said meanwhile', () => {
  const { items } = foldConversation(log);
  assert.deepEqual(
    items.flatMap((item) => (item.kind === 'end' ? [item.milliseconds] : [])),
    [7000],
  );
});
