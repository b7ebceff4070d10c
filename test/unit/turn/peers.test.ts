// What a process makes of the notices of others, and of its own.
import assert from 'node:assert/strict';
import { after, mock, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Bus } from '../../../src/database/bus.ts';
import { dropSession } from '../../../src/session/drop-sessions.ts';
import type { LiveFragment } from '../../../src/session/events.ts';
import { Feed } from '../../../src/session/feed.ts';
import { LiveRelay } from '../../../src/turn/live-relay.ts';
import { joinPeers } from '../../../src/turn/peers.ts';
import { startApp } from '../../support/app.ts';
import { until } from '../../support/until.ts';

const app = await startApp({ after });
const { database, directory, settings, log, runner, turns } = app.context;
const sent: string[] = [];
let receive: (payload: string) => void = () => {};
const bus: Bus = {
  announcesWrites: true,
  send: async (payload) => void sent.push(payload),
  receive: async (listener) => {
    receive = listener;
  },
  close: async () => {},
};
const courier = { wake() {} };
const rateLimit = { shareWith() {} };
const logger = { warn: mock.fn() };
const parts = { db: database.db, feed: new Feed(), log, runner, turns, directory, settings, courier, rateLimit, logger };
const peers = await joinPeers(bus, 'proc_here', parts);
after(() => peers.close());

async function newSession(): Promise<string> {
  return JSON.parse((await app.request('POST', '/v1/sessions', {})).text).id;
}

test('a notice of a stop that comes when the session was resumed leaves alone what is held for it', async (t) => {
  const forget = t.mock.method(settings, 'forget');
  const [resumed, stopped] = [await newSession(), await newSession()];
  await app.request('DELETE', `/demo/assistant/v1/sessions/${stopped}`);
  assert.deepEqual(
    sent.filter((notice) => notice !== 'proc_here alive'),
    [`proc_here stopped ${stopped}`],
  );
  forget.mock.resetCalls();
  receive(`proc_there stopped ${resumed}`);
  receive(`proc_there stopped ${stopped}`);
  await until(async () => forget.mock.callCount() > 0);
  assert.deepEqual(
    forget.mock.calls.map((call) => call.arguments),
    [[stopped]],
  );
});

test('a notice that cannot be read is warned of, and does not end the process', () => {
  for (const notice of ['', 'anything', 'proc_there live {', 'proc_there live {"session":"ses_1","fragments":1}']) receive(notice);
  assert.deepEqual(
    logger.warn.mock.calls.map((call) => call.arguments[1]),
    ['could not read a notice'],
  );
});

test('a change whose answer never came is heard of by the process that made it', (t) => {
  const invalidate = t.mock.method(directory, 'invalidate');
  receive('proc_here changed 7');
  assert.deepEqual(invalidate.mock.calls[0]?.arguments, [7]);
});

test('of a session that was dropped, here or elsewhere, nothing is held: its id may be given to somebody else', async () => {
  for (const drop of [(id: string) => receive(`proc_there dropped ${id}`), (id: string) => parts.feed.drop(id)]) {
    const id = await newSession();
    await app.request('POST', `/v1/sessions/${id}/messages`, { text: '/say first' });
    assert.equal(runner.states.seqOf(id), 4);
    drop(id);
    assert.equal(runner.states.seqOf(id), 0);
  }
});

test('of a session whose drop was not heard of nothing is held either, once it is known that notices were lost', async () => {
  const id = await newSession();
  await app.request('POST', `/v1/sessions/${id}/messages`, { text: '/say first' });
  assert.ok(await dropSession(database.db, 1, id));
  receive('* reconnected');
  assert.deepEqual([runner.states.seqOf(id), await settings.of(1, id)], [0, undefined]);
});

test('of a session that was dropped while it was read nothing is held either', async (t) => {
  for (const drop of [(id: string) => receive(`proc_there dropped ${id}`), () => receive('* reconnected')]) {
    const id = await newSession();
    await app.request('POST', `/v1/sessions/${id}/messages`, { text: '/say first' });
    receive(`proc_there dropped ${id}`);
    const release = directory.release.bind(directory);
    const readToFold = log.readToFold.bind(log);
    const reading = t.mock.method(directory, 'release', async (...which: Parameters<typeof release>) => {
      const found = await release(...which);
      drop(id);
      return found;
    });
    const folding = t.mock.method(log, 'readToFold', async function* (...which: Parameters<typeof readToFold>) {
      yield* readToFold(...which);
      drop(id);
    });
    await settings.of(1, id);
    await runner.states.warm(log, id);
    reading.mock.restore();
    folding.mock.restore();
    assert.ok(await dropSession(database.db, 1, id));
    assert.deepEqual([await settings.of(1, id), runner.states.seqOf(id)], [undefined, 0]);
  }
});

test('text says how far the log goes that it follows', async () => {
  const id = await newSession();
  await app.request('POST', `/v1/sessions/${id}/messages`, { text: '/say first' });
  const begun: LiveFragment = { type: 'text-delta', turnId: 'turn_2', messageId: 'msg_2', step: 1, agent: 'main', offset: 0, text: 'sec' };
  receive(`proc_there watch ${id}`);
  runner.elsewhere.show(id, begun);
  await runner.elsewhere.flush(id);
  assert.deepEqual(sent.at(-1), `proc_here live ${JSON.stringify({ session: id, after: 4, fragments: [begun] })}`);
});

test('text that comes while a notice of its session is still on its way goes in the next one, all of it', async () => {
  const held = Promise.withResolvers<void>();
  const notices: string[] = [];
  const send = (payload: string) => {
    notices.push(payload);
    return held.promise;
  };
  const relay = new LiveRelay({ ...bus, send }, 'proc_here', { draftsOf: () => [] }, { seqOf: () => 4 });
  relay.watch('slow');
  const about = { type: 'text-delta' as const, turnId: 'turn_1', messageId: 'msg_1', step: 1, agent: 'main' };
  relay.show('slow', { ...about, offset: 0, text: 'one' });
  await until(async () => notices.length === 1);
  for (const [offset, text] of [' two', ' three'].entries()) {
    relay.show('slow', { ...about, offset: 3 + 4 * offset, text });
    // Longer than text is gathered for.
    await sleep(100);
  }
  assert.equal(notices.length, 1);
  held.resolve();
  await until(async () => notices.length === 2);
  const rest = { session: 'slow', after: 4, fragments: [{ ...about, offset: 3, text: ' two three' }] };
  assert.equal(notices[1], `proc_here live ${JSON.stringify(rest)}`);
});

test('text too long for one notice goes in several, and none of it is lost', async () => {
  const notices: string[] = [];
  const send = async (payload: string) => void notices.push(payload);
  const relay = new LiveRelay({ ...bus, send }, 'proc_here', { draftsOf: () => [] }, { seqOf: () => 4 });
  relay.watch('long');
  const text = '😀'.repeat(5_000);
  relay.show('long', { type: 'text-delta', turnId: 'turn_1', messageId: 'msg_1', step: 1, agent: 'main', offset: 0, text });
  await relay.flush('long');
  assert.ok(notices.length > 1 && notices.every((notice) => Buffer.byteLength(notice) < 8_000));
  let said = '';
  for (const { offset, text: piece } of notices.flatMap((notice) => JSON.parse(notice.slice(notice.indexOf('{'))).fragments)) {
    assert.equal(offset, said.length);
    said += piece;
  }
  assert.equal(said, text);
});

test('when notices may have been lost, what is cached is forgotten, and whoever watches or delivers looks again', (t) => {
  const invalidate = t.mock.method(directory, 'invalidate');
  const wake = t.mock.method(courier, 'wake');
  const watching = parts.feed.subscribe('watched', false);
  receive('* reconnected');
  assert.deepEqual(invalidate.mock.calls[0]?.arguments, ['all']);
  assert.equal(wake.mock.callCount(), 1);
  assert.ok(watching.take(7), 'the log is read, however far it was');
  watching.close();
});

test('a process of which nothing is heard any more has no part of the rate limit', async (t) => {
  let now = performance.now();
  t.mock.method(performance, 'now', () => now);
  t.mock.timers.enable({ apis: ['setInterval'] });
  let hear: (payload: string) => void = () => {};
  const listening: Bus = {
    ...bus,
    receive: async (listener) => {
      hear = listener;
    },
  };
  const shares: number[] = [];
  const limited = { ...parts, feed: new Feed(), rateLimit: { shareWith: (processes: number) => void shares.push(processes) } };
  const joined = await joinPeers(listening, 'proc_here', limited);
  t.after(() => joined.close());
  for (const other of ['proc_there', 'proc_gone']) hear(`${other} alive`);
  now += 3_000;
  hear('proc_there alive');
  now += 1_000;
  t.mock.timers.tick(1_000);
  assert.deepEqual(shares, [2, 3, 3, 2]);
});
