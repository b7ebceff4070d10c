// The message that is being written, as the dashboard shows it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseFrame } from '../../../dashboard/src/conversation/log-event.ts';
import { noPreview, previewAfter } from '../../../dashboard/src/conversation/preview.ts';

const delta = (message_id: string, text: string) => ({ type: 'agent.message_delta', session_id: 's', message_id, text });
const entry = (type: string) => ({ seq: 4, type, created_at: '' });

function previewOf(...frames: object[]): string {
  let preview = noPreview;
  for (const frame of frames) {
    const parsed = parseFrame(JSON.stringify(frame));
    assert.ok(parsed !== undefined);
    preview = previewAfter(preview, parsed);
  }
  return preview.text;
}

test('pieces of one message add up; one of another message is in its place', () => {
  assert.equal(previewOf(delta('msg_a', 'The '), delta('msg_a', 'sea')), 'The sea');
  assert.equal(previewOf(delta('msg_a', 'The sea'), delta('msg_b', 'A '), delta('msg_b', 'hill')), 'A hill');
});

test('a preview ends with its message, with a call and with the turn, and with nothing else', () => {
  for (const type of ['agent.message', 'agent.tool_use', 'session.status_idle', 'session.error'])
    assert.equal(previewOf(delta('msg_a', 'The sea'), entry(type)), '', type);
  for (const type of ['agent.thinking', 'user.interrupt']) assert.equal(previewOf(delta('msg_a', 'The sea'), entry(type)), 'The sea', type);
});
