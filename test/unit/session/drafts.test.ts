import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LiveFragment } from '../../../src/session/events.ts';
import { Feed } from '../../../src/session/feed.ts';

test('who comes while an answer is written again is shown it from its first word, and nothing of the one that was given up', () => {
  const about = { turnId: 'turn_1', step: 1, agent: 'main' };
  const words = (messageId: string, offset: number, text: string): LiveFragment => ({
    type: 'text-delta',
    messageId,
    offset,
    text,
    ...about,
  });
  const thought = (messageId: string, text: string): LiveFragment => ({ type: 'reasoning-delta', messageId, offset: 0, text, ...about });
  const feed = new Feed();
  feed.publish('ses_1', [thought('msg_r', 'Hm'), words('msg_a', 0, 'The '), words('msg_a', 4, 'sea')]);
  assert.deepEqual(feed.draftsOf('ses_1'), [thought('msg_r', 'Hm'), words('msg_a', 0, 'The sea')]);
  feed.publish('ses_1', [thought('msg_s', 'Ah'), thought('msg_t', 'So'), words('msg_b', 0, 'A '), words('msg_b', 2, 'hill')]);
  assert.deepEqual(feed.draftsOf('ses_1'), [thought('msg_s', 'Ah'), thought('msg_t', 'So'), words('msg_b', 0, 'A hill')]);
  assert.deepEqual(feed.subscribe('ses_1', true).take(0)?.updates, feed.draftsOf('ses_1'));
});
