import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Item } from '../../../dashboard/src/conversation/fold.ts';
import { notLogged, type Outgoing } from '../../../dashboard/src/pages/playground/outgoing.ts';

const sent = (text: string, changes: Partial<Outgoing> = {}): Outgoing => ({
  id: 1,
  sessionId: 'ses_1',
  text,
  files: [],
  isAccepted: false,
  after: 4,
  ...changes,
});
const said = (seq: number, text: string): Item => ({ kind: 'user', seq, at: '', text, files: [], name: '' });
const end: Item = { kind: 'end', seq: 8, at: '', reason: 'end_turn', tokens: 1, milliseconds: 1 };
const shown = (outgoing: Outgoing[], items: Item[], running = false) =>
  notLogged(outgoing, 'ses_1', { items, running, pending: undefined }).map(({ text }) => text);

test('a message is shown until the log has it, and an earlier one with the same words does not count', () => {
  assert.deepEqual(shown([sent('hi')], [said(1, 'hi')]), ['hi']);
  assert.deepEqual(shown([sent('hi')], [said(1, 'hi'), said(5, 'hi')]), []);
});

test('of two messages with the same words, one entry of the log takes one', () => {
  assert.deepEqual(shown([sent('hi'), sent('hi')], [said(5, 'hi')], true), ['hi']);
});

test('one of two messages with the same words that was left over goes on waiting for an entry of its own', () => {
  const left = notLogged([sent('hi'), sent('hi')], 'ses_1', { items: [said(5, 'hi')], running: true, pending: undefined });
  assert.deepEqual(shown(left, [said(5, 'hi')], true), ['hi']);
  assert.deepEqual(shown(left, [said(5, 'hi'), said(9, 'hi')]), []);
});

test('a message to another session is not shown', () => {
  assert.deepEqual(shown([sent('hi', { sessionId: 'ses_2' })], []), []);
});

test('a message that waited for a turn is no longer shown when that has ended without it, as in a session that was stopped', () => {
  const waiting = sent('hi', { isAccepted: true });
  assert.deepEqual(shown([waiting], [end], true), ['hi']);
  assert.deepEqual(shown([waiting], [end]), []);
  assert.deepEqual(shown([sent('hi')], [end]), ['hi']);
  assert.deepEqual(shown([{ ...waiting, after: 8 }], [end]), ['hi']);
});
