import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { NewEvent } from '../../../src/session/events.ts';
import { numberEvents, type SessionLog } from '../../../src/session/log.ts';
import { foldSession, type SessionState } from '../../../src/session/state.ts';
import { RecentStates } from '../../../src/turn/recent-states.ts';

const mebibyte = 2 ** 20;

/** A turn that brings this many characters, of two bytes each unless another letter is given. */
function say(state: SessionState, characters: number, letter = 'я'): void {
  const text = letter.repeat(characters);
  const events: NewEvent[] = [
    { type: 'message-received', data: { messageId: 'msg_1', text: '' } },
    { type: 'message-produced', data: { messageId: 'msg_2', text, step: 1, agent: 'main' } },
  ];
  foldSession(numberEvents(events, `turn_${state.seq}`, state.seq + 1, new Date(0)), state);
}

test('sessions that grow push out those that ran longest ago, by what they hold', () => {
  const states = new RecentStates({ sessions: 100, bytes: 10 * mebibyte });
  const grown = new Map(['a', 'b', 'c'].map((name) => [name, foldSession([])]));
  for (const [name, state] of grown) states.keep(name, state);
  for (let turn = 0; turn < 4; turn += 1) {
    for (const [name, state] of grown) {
      say(state, mebibyte / 2);
      states.keep(name, state);
      assert.ok(states.bytes <= 10 * mebibyte, `${states.bytes} bytes are kept`);
    }
  }
  assert.deepEqual([states.has('a'), states.has('b'), states.has('c')], [false, true, true]);
});

test('a state that is larger than all may be together is not kept, and takes the place of no other', () => {
  const states = new RecentStates({ sessions: 100, bytes: mebibyte });
  const [small, large] = [foldSession([]), foldSession([])];
  states.keep('small', small);
  states.keep('large', large);
  say(large, mebibyte);
  states.keep('large', large);
  assert.deepEqual([states.get('small'), states.get('large')], [small, undefined]);
});

test('many small entries count too', () => {
  const states = new RecentStates({ sessions: 100, bytes: mebibyte });
  const state = foldSession([]);
  for (let turn = 0; turn < 10_000; turn += 1) say(state, 1);
  states.keep('many', state);
  assert.equal(states.has('many'), false);
});

test('what was counted is not looked at again, and what was condensed away no longer counts', () => {
  const states = new RecentStates({ sessions: 100, bytes: 10 * mebibyte });
  const state = foldSession([]);
  let looks = 0;
  state.entries.push({
    seq: 1,
    type: 'text',
    get text() {
      looks += 1;
      return 'long ago';
    },
  });
  for (let turn = 0; turn < 5; turn += 1) {
    say(state, 100_000);
    states.keep('one', state);
  }
  assert.equal(looks, 1);
  const before = states.bytes;
  assert.ok(before > 1_000_000 && before < 1_010_000, `${before} bytes`);
  const condensed: NewEvent = { type: 'context-condensed', data: { throughSeq: state.seq - 2, summary: null } };
  foldSession(numberEvents([condensed], 'turn_8', state.seq + 1, new Date(0)), state);
  states.keep('one', state);
  assert.ok(states.bytes < 210_000, `${states.bytes} bytes`);
});

test('a text of ASCII, which takes half the memory, counts half', () => {
  const states = new RecentStates();
  const [latin, cyrillic] = [foldSession([]), foldSession([])];
  say(latin, 100_000, 'x');
  say(cyrillic, 100_000);
  states.keep('latin', latin);
  const bytes = states.bytes;
  assert.ok(bytes > 100_000 && bytes < 102_000, `${bytes} bytes`);
  states.keep('cyrillic', cyrillic);
  assert.equal(states.bytes - bytes, bytes + 100_000);
});

test('a state that was dropped while its turn ran does not come back', () => {
  const states = new RecentStates();
  const state = foldSession([]);
  states.keep('one', state);
  states.drop('one');
  states.keepGrown('one', state);
  assert.equal(states.has('one'), false);
});

test('a log that is being folded is not folded again by the next request to warm it, and no older state replaces the one that went on', async () => {
  const events = (from: number) =>
    numberEvents([{ type: 'message-received', data: { messageId: 'msg_1', text: '' } }], 'turn_1', from, new Date(0));
  const reads: PromiseWithResolvers<void>[] = [];
  async function* readToFold() {
    reads.push(Promise.withResolvers());
    await reads.at(-1)?.promise;
    yield events(1);
  }
  const log: Pick<SessionLog, 'readToFold'> = { readToFold };
  const states = new RecentStates();
  const warming = [states.warm(log, 'one'), states.warm(log, 'one')];
  assert.equal(reads.length, 1);
  states.keep('one', foldSession(events(1)));
  const state = await states.fold(log, 'one', 'turn_1', events(2));
  reads[0]?.resolve();
  await Promise.all(warming);
  assert.deepEqual([states.get('one'), states.seqOf('one')], [state, 2]);
});
