// The loop of a turn over a log, with a model that answers as it is told.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ModelError, type ModelPart } from '../../../src/harness/model.ts';
import { BrokenAnswer, TurnAborted, type TurnYield } from '../../../src/harness/turn-world.ts';
import type { NewEvent } from '../../../src/session/events.ts';
import { numberEvents } from '../../../src/session/log.ts';
import { foldSession } from '../../../src/session/state.ts';
import { createLogger } from '../../../src/telemetry/logger.ts';
import { nextYield } from '../../../src/turn/commit-points.ts';
import { turnFailure } from '../../../src/turn/failure.ts';
import { broken, call, called, finish, finished, received, run, text, thought } from './scene.ts';

const results = (added: NewEvent[]) => added.flatMap(({ type, data }) => (type === 'tool-finished' ? [data.notRun ?? data.output] : []));
const messages = (added: NewEvent[]) => added.flatMap(({ type, data }) => (type === 'message-produced' ? [data] : []));
const thoughts = (added: NewEvent[]) => added.flatMap(({ type, data }) => (type === 'reasoning-produced' ? [data] : []));
const cuts = (added: NewEvent[]) => added.flatMap(({ type, data }) => (type === 'context-condensed' ? [data] : []));

test('of a run that died only the call it was at may have acted: it is not repeated unless it may be, and those behind it run', async () => {
  const events = [received('hi'), called('one'), called('two'), called('three'), finished('one')];
  const answers = () => [
    [call('four'), finish],
    [text('Done.'), finish],
  ];
  const once = await run({ events, recovered: true, answers: answers() });
  assert.deepEqual(
    [once.ran, results(once.added)],
    [
      ['three', 'four'],
      ['unknown', 'ran', 'ran'],
    ],
  );
  const again = await run({ events, recovered: true, repeatable: true, answers: answers() });
  assert.deepEqual(
    [again.ran, results(again.added)],
    [
      ['two', 'three', 'four'],
      ['ran', 'ran', 'ran'],
    ],
  );
});

test('a turn that was stopped before its process died ends: nothing runs, and the model is not asked', async () => {
  const stopped: NewEvent = { type: 'interrupt-requested', data: { reason: 'user' } };
  const { ran, added } = await run({ events: [received('hi'), called('one'), stopped], recovered: true, repeatable: true });
  assert.deepEqual([ran, results(added), added.at(-1)?.type], [[], ['interrupted'], 'turn-ended']);
});

test('the model is asked with the settings of its sub-agent and, where that is wanted, to think', async () => {
  const model = (temperature: number) => ({ provider: 'offline', name: 'demo', settings: { temperature } });
  const release = { model: model(0.1), main: 'a', agents: [{ name: 'a' }, { name: 'b', model: model(0.9) }] };
  for (const [agent, thinking, temperature] of [
    ['a', false, 0.1],
    ['b', true, 0.9],
  ] as const) {
    const started: NewEvent = { type: 'turn-started', data: { agent } };
    const { asked } = await run({ events: [received('hi', { thinking }), started], release, answers: [[text('Yes.'), finish]] });
    assert.deepEqual([asked[0]?.settings, asked[0]?.thinking], [{ temperature }, thinking]);
  }
});

test('an answer that broke off and comes again is shown on from where it was, and paid for twice', async () => {
  const answers = [
    [text('One '), text('two '), broken],
    [text('One'), text(' two three'), finish],
  ];
  const { shown, added, slept } = await run({ events: [received('hi')], answers });
  assert.deepEqual(
    shown.map(({ text, offset }) => [offset, text]),
    [
      [0, 'One '],
      [4, 'two '],
      [8, 'three'],
    ],
  );
  const [said] = messages(added);
  assert.deepEqual([...new Set(shown.map(({ messageId }) => messageId))], [said?.messageId]);
  assert.equal(said?.text, 'One two three');
  // The first attempt by its length: a question of two characters, an answer of eight.
  const end = added.at(-1);
  assert.deepEqual(end?.type === 'turn-ended' && end.data.usage, { input: 101, output: 12, cachedInput: 0 });
  assert.ok(slept.length === 1 && Number(slept[0]) >= 200);
});

test('an answer that comes again and differs, or is shorter, is shown anew as another message', async () => {
  for (const again of ['Uno dos tres', 'One']) {
    const { shown, added } = await run({
      events: [received('hi')],
      answers: [
        [text('One two'), broken],
        [text(again), finish],
      ],
    });
    assert.deepEqual(
      shown.map(({ text, offset }) => [offset, text]),
      [
        [0, 'One two'],
        [0, again],
      ],
    );
    assert.notEqual(shown[0]?.messageId, shown[1]?.messageId);
    assert.deepEqual([messages(added)[0]?.messageId, messages(added)[0]?.text], [shown[1]?.messageId, again]);
  }
});

test('an answer that ends before its end is asked for again after a moment, and what will not pass is not', async () => {
  const { slept } = await run({ events: [received('hi')], answers: [[text('One')], [text('One.'), finish]] });
  assert.equal(slept.length, 1);
  const rejected = new ModelError('byok_key_rejected', 'offline', 'No.');
  const { added } = await run({ events: [received('hi')], answers: [[rejected]] });
  assert.deepEqual(
    added.map(({ type, data }) => [type, Object(data).code]),
    [['turn-failed', 'byok_key_rejected']],
  );
});

test('words that come with the end of the answer are shown when they are stored, but never the first words', async () => {
  const last = (said: string): ModelPart => ({ type: 'text-delta', text: said, isLast: true });
  const { shown, added } = await run({ events: [received('hi')], answers: [[text('One '), last('two'), finish]] });
  assert.deepEqual([shown.map((fragment) => fragment.text), messages(added)[0]?.text], [['One '], 'One two']);
  const short = await run({ events: [received('hi')], answers: [[last('Yes.'), finish]] });
  assert.deepEqual(
    short.shown.map((fragment) => fragment.text),
    ['Yes.'],
  );
});

test('the third attempt is the last, and what stays of it is the most that was shown, with what all of them took', async () => {
  const usageOf = (added: NewEvent[]) => (added.at(-1)?.type === 'turn-failed' ? Object(added.at(-1)?.data).usage : undefined);
  const said = await run({ events: [received('hi')], answers: [[text('One two'), broken], [text('One'), broken], [broken]] });
  assert.deepEqual(
    messages(said.added).map(({ text, partial }) => [text, partial]),
    [['One two', true]],
  );
  assert.deepEqual([said.slept.length, usageOf(said.added)], [2, { input: 2, output: 3, cachedInput: 0 }]);
  assert.deepEqual(said.points, ['end'], 'stored with the end, so that no other process asks the model again between the two');
  const thinking = await run({ events: [received('hi')], answers: [[broken], [broken], [thought('Hm.'), broken]] });
  assert.deepEqual([thoughts(thinking.added)[0]?.text, usageOf(thinking.added)], ['Hm.', { input: 1, output: 1, cachedInput: 0 }]);
  const end: ModelPart = { type: 'reasoning-end' };
  const first = [thought('Hm, so.'), end, thought('Then.'), end, thought('And'), broken];
  const pondering = await run({ events: [received('hi')], answers: [first, [thought('Hm,'), broken], [thought('Hm, so.'), end, broken]] });
  assert.deepEqual(
    thoughts(pondering.added).map(({ messageId, text }) => [messageId, text]),
    pondering.shown.map(({ messageId, text }) => [messageId, text]),
  );
  assert.equal(pondering.shown.length, 3);
  const acting = await run({ events: [received('hi')], answers: [[broken], [broken], [call('rm -r .'), broken]] });
  assert.deepEqual([acting.ran, acting.added.length], [[], 1], 'half an answer acts on nothing');
  assert.deepEqual(usageOf(acting.added), { input: 1, output: 3, cachedInput: 0 });
});

test('what was said when the time of the turn is up is stored with its end, and paid for', async () => {
  const timeout = new TurnAborted('timeout');
  const scene = { events: [received('hi')], answers: [[text('One two'), timeout]] };
  const thrown = await run(scene).catch((error: unknown) => error);
  assert.ok(thrown instanceof BrokenAnswer);
  assert.equal(thrown.cause, timeout);
  const failing = async function* (): AsyncGenerator<TurnYield, void, void> {
    yield* [];
    throw thrown;
  };
  const state = foldSession(numberEvents(scene.events, 'turn_1', 1, new Date(0)));
  const ids = { turn: 'turn_1', session: 'ses_1', org: 1 };
  const end = await nextYield(createLogger('silent'), failing(), ids, state, AbortSignal.abort(timeout));
  assert.ok(end?.type === 'end');
  const usage = { input: 1, output: 2, cachedInput: 0 };
  assert.deepEqual(
    end.events.map(({ type, data }) => [type, Object(data).text ?? Object(data).code, Object(data).stepUsage ?? Object(data).usage]),
    [
      ['message-produced', 'One two', usage],
      ['turn-failed', 'turn_timeout', usage],
    ],
  );
});

test('a provider that says when to come again is asked then, and so is whoever waits', async () => {
  const busy = new ModelError('rate_limited', 'offline', 'Later.', { retryAfterSeconds: 7 });
  const { slept, added } = await run({ events: [received('hi')], answers: [[busy], [busy], [busy]] });
  const [end] = added;
  assert.deepEqual([slept, end?.type === 'turn-failed' && turnFailure(end.data).retryAfterSeconds], [[7_000, 7_000], 7]);
});

test('each block of reasoning is kept by itself', async () => {
  const end: ModelPart = { type: 'reasoning-end' };
  const { added } = await run({ events: [received('hi')], answers: [[thought('a'), end, thought('b'), end, text('Yes.'), finish]] });
  assert.deepEqual(
    thoughts(added).map(({ text }) => text),
    ['a', 'b'],
  );
});

test('an answer of more than a thousand calls fails, and none of them runs', async () => {
  const answer = [...Array.from({ length: 1_001 }, () => call('again')), finish];
  const { ran, added } = await run({ events: [received('hi')], answers: [answer, answer, answer] });
  assert.deepEqual([ran, added.map(({ type }) => type)], [[], ['turn-failed']]);
});

test('a conversation that is too long is cut before the first message from which on it fits, and never inside a turn', async () => {
  const release = { context: { limit_tokens: 1_000 } };
  const answers = () => [[text('Yes.'), finish]];
  const long = (count: number) => Array.from({ length: count }, () => received('x'.repeat(700)));
  assert.deepEqual(cuts((await run({ events: long(6), release, answers: answers() })).added), [{ throughSeq: 4, summary: null }]);
  const heard = received('by the way', { silent: true });
  const events = [received('x'.repeat(3_000)), called('one'), heard, finished('one', 'x'.repeat(600)), received('and now?')];
  assert.deepEqual(cuts((await run({ events, release, answers: answers() })).added), [{ throughSeq: 4, summary: null }]);
});

test('what cannot be summarized leaves the summary before it in place, and a model that is away ends the turn', async () => {
  const release = { context: { limit_tokens: 256, overflow: 'summarize' } };
  const before: NewEvent = { type: 'context-condensed', data: { throughSeq: 0, summary: 'Ada likes tea.' } };
  const hm: NewEvent = { type: 'reasoning-produced', data: { messageId: 'msg_hm', text: 'Hm.', step: 1 } };
  const events = [before, received('x'.repeat(900)), hm, received('and now?')];
  const tooLong = new ModelError('context_length_exceeded', 'offline', 'Too long.');
  const kept = await run({ events, release, answers: [[tooLong], [text('Yes.'), finish]] });
  assert.deepEqual(cuts(kept.added), [{ throughSeq: 3, summary: 'Ada likes tea.' }]);
  assert.doesNotMatch(JSON.stringify(kept.asked[0]?.messages), /Hm\./, 'reasoning is not taken without what it led to');
  const away = new ModelError('overloaded', 'offline', 'Later.');
  const failed = await run({ events, release, answers: [[away], [away], [away]] });
  assert.deepEqual(
    failed.added.map(({ type }) => type),
    ['turn-failed'],
  );
  assert.deepEqual([failed.asked.length, failed.slept.length], [3, 2], 'asked again after a wait');
  const rejected = new ModelError('byok_key_rejected', 'offline', 'No.');
  assert.equal((await run({ events, release, answers: [[rejected]] })).asked.length, 1, 'and only where that may help');
});

test('a summary that is stopped on its way is paid for as far as it came', async () => {
  const release = { context: { limit_tokens: 256, overflow: 'summarize' } };
  const events = [received('x'.repeat(900)), received('and now?')];
  const { added } = await run({ events, release, answers: [[text('They spoke '), new TurnAborted('interrupted')]] });
  const [end] = added;
  // 900 characters were said, and 113 ask for the summary.
  assert.deepEqual(end?.type === 'turn-ended' && [end.data.stopReason, end.data.usage], [
    'interrupted',
    { input: 254, output: 3, cachedInput: 0 },
  ]);
});

test('a call that is stopped before the first word is paid for with its input, and one that was not made yet is not', async () => {
  const stopped = new TurnAborted('interrupted');
  const busy = new ModelError('rate_limited', 'offline', 'Later.');
  const hi = [received('hi')];
  const condensing = { release: { context: { limit_tokens: 256, overflow: 'summarize' } }, events: [received('x'.repeat(900)), ...hi] };
  const inputOf = async (scene: Parameters<typeof run>[0]) => {
    const end = (await run(scene)).added.at(-1);
    return end?.type === 'turn-ended' && end.data.stopReason === 'interrupted' && end.data.usage.input;
  };
  assert.deepEqual(
    [
      await inputOf({ events: hi, answers: [[stopped]] }),
      await inputOf({ events: hi, answers: [[busy], [stopped]] }),
      await inputOf({ events: hi, answers: [[busy]], interruptedIn: 'sleep' }),
      await inputOf({ events: hi, interruptedIn: 'modelFor' }),
    ],
    [1, 1, 0, 0],
  );
  assert.deepEqual(
    [
      await inputOf({ ...condensing, answers: [[stopped]] }),
      await inputOf({ ...condensing, answers: [[busy]], interruptedIn: 'sleep' }),
      await inputOf({ ...condensing, interruptedIn: 'modelFor' }),
    ],
    [254, 0, 0],
    'so it is for a summary',
  );
});
