// The message field of the widget, into which messages come back that could not be sent.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Draft } from '../../../widget/src/draft.ts';

function draftOf(text: string): Draft {
  const draft = new Draft();
  draft.text = text;
  return draft;
}

test('what could not be sent comes back in the order in which it was sent, before what was typed meanwhile', () => {
  for (const [typed, expected] of [
    ['', 'first\nsecond\nthird'],
    ['half a thought', 'first\nsecond\nthird\nhalf a thought'],
    ['first', 'first\nsecond\nthird\nfirst'],
  ] as const) {
    const draft = draftOf(typed);
    for (const text of ['first', 'second', 'third']) draft.takeBack(text, []);
    assert.equal(draft.text, expected);
  }
});

test('text that is written on in what came back stays whole', () => {
  const draft = draftOf('');
  draft.takeBack('first', []);
  draft.text = 'first of all';
  draft.takeBack('second', []);
  assert.equal(draft.text, 'second\nfirst of all');
  draft.text += '\nand then';
  draft.takeBack('third', []);
  assert.equal(draft.text, 'second\nthird\nfirst of all\nand then');
});

test('what came back and was sent again is forgotten', () => {
  const draft = draftOf('');
  draft.takeBack('first', []);
  draft.clear();
  draft.text = 'first\nagain';
  draft.takeBack('second', []);
  assert.equal(draft.text, 'second\nfirst\nagain');
});
