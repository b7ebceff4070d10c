import assert from 'node:assert/strict';
import { test } from 'node:test';
import { toolResultText } from '../../../src/instances/mcp-result.ts';

test('what a tool answers reaches the model as text, and what is none is named', () => {
  const text = toolResultText({
    content: [
      { type: 'text', text: 'found' },
      { type: 'image', mimeType: 'image/png', data: 'AAAAAAAA' },
      { type: 'resource', resource: { uri: 'notes://1', text: 'a note' } },
      { type: 'resource', resource: { uri: 'notes://2', blob: 'AAAA' } },
      { type: 'resource_link', uri: 'notes://3', name: 'third', description: 'the third' },
      { type: 'resource_link', uri: 'notes://4', name: 'fourth' },
    ],
    structuredContent: { found: true },
  });
  assert.deepEqual(text.split('\n'), [
    'found',
    '[image, image/png, 6 bytes, not shown]',
    'a note',
    '[resource notes://2, binary, not shown]',
    '[resource notes://3: the third]',
    '[resource notes://4]',
  ]);
  assert.equal(toolResultText({ content: [], structuredContent: { found: true } }), '{"found":true}', 'where nothing else was said');
  assert.equal(toolResultText({ content: [] }), '');
});
