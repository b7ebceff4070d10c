import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import fc from 'fast-check';
import { dropSession } from '../../../src/session/drop-sessions.ts';
import type { NewEvent } from '../../../src/session/events.ts';
import { isStored } from '../../../src/session/events.ts';
import { Feed, type Subscription } from '../../../src/session/feed.ts';
import { follow } from '../../../src/session/follow.ts';
import { SessionLog } from '../../../src/session/log.ts';
import { subscribeAgain, watchTurn } from '../../../src/turn/watch.ts';
import { startApp } from '../../support/app.ts';
import { said, upTo, write } from '../../support/written-log.ts';

const app = await startApp({ after });
const { database } = app.context;

const openLog = (processId = 'proc_test') => new SessionLog(database, processId, 5_000, false);

async function newSession(): Promise<string> {
  const answer = await app.request('POST', '/v1/sessions', {});
  return JSON.parse(answer.text).id;
}

test('followers that join at any moment see every event once and in order', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 0, max: 30 }),
      fc.integer({ min: 1, max: 4 }),
      fc.integer({ min: 0, max: 20 }),
      async (joinsAfter, width, skip) => {
        const log = openLog();
        const feed = new Feed();
        const session = await newSession();
        const total = 40 * width;
        const followers: { after: number; seen: Promise<number[]> }[] = [];
        const join = (after: number) => followers.push({ after, seen: seqs(log, feed, session, after, total) });
        join(0);
        const writers = upTo(40).map(async (writer) => {
          if (writer === joinsAfter) join(skip);
          await write(
            log,
            feed,
            session,
            upTo(width).map((index) => said(`${writer} ${index}`)),
          );
          if (writer === joinsAfter + 5) join(0);
        });
        await Promise.all(writers);
        for (const { after, seen } of followers) assert.deepEqual(await seen, upTo(total).slice(after));
      },
    ),
    { numRuns: 15 },
  );
});

test('a follower whose inbox overflowed reads the rest from the log', async () => {
  const log = openLog();
  const feed = new Feed();
  const session = await newSession();
  const subscription = feed.subscribe(session, true);
  for (let index = 0; index < 30; index += 1)
    await write(
      log,
      feed,
      session,
      upTo(100).map((number) => said(String(number))),
    );
  const seen: number[] = [];
  for await (const updates of follow(log, subscription, 0, false)) {
    for (const update of updates) if (isStored(update)) seen.push(update.seq);
    if (seen.length >= 3_000) subscription.close();
  }
  assert.deepEqual(seen, upTo(3_000));
});

test('a follower that is only told to look again finds what another process wrote', async () => {
  const log = openLog('proc_here');
  const feed = new Feed();
  const session = await newSession();
  const following = seqs(log, feed, session, 0, 3);
  const elsewhere = openLog('proc_there');
  for (let index = 1; index <= 3; index += 1) {
    await write(elsewhere, new Feed(), session, [said('from there')]);
    feed.lookAgain(session, index);
  }
  assert.deepEqual(await following, [1, 2, 3]);
});

test('a follower that is told to look again while it looks does so, though it is not told how far', { timeout: 10_000 }, async (t) => {
  const log = openLog();
  const elsewhere = new Feed();
  const session = await newSession();
  const subscription = new Feed().subscribe(session, false);
  await write(log, elsewhere, session, [said('first')]);
  subscription.lookAgain(Number.MAX_SAFE_INTEGER);
  const { readPage } = log;
  t.mock.method(
    log,
    'readPage',
    async (...place: Parameters<typeof readPage>) => {
      const page = await readPage.apply(log, place);
      await write(log, elsewhere, session, [said('second')]);
      subscription.lookAgain(Number.MAX_SAFE_INTEGER);
      return page;
    },
    { times: 1 },
  );
  const seen: number[] = [];
  for await (const updates of follow(log, subscription, 0, false)) {
    for (const update of updates) if (isStored(update)) seen.push(update.seq);
    if (seen.length === 2) subscription.close();
  }
  assert.deepEqual(seen, [1, 2]);
});

test('a follower whose session was dropped before it could read the rest is told so', { timeout: 10_000 }, async () => {
  const log = openLog();
  const session = await newSession();
  const subscription = new Feed().subscribe(session, false);
  await write(log, new Feed(), session, [said('first')]);
  subscription.lookAgain(3);
  const seen: number[] = [];
  const following = async () => {
    for await (const updates of follow(log, subscription, 0, false)) seen.push(...updates.filter(isStored).map(({ seq }) => seq));
  };
  await assert.rejects(following, /no longer exists/);
  assert.deepEqual(seen, [1]);
});

test('a follower that is only told to look again, not how far, is told that its session was dropped', { timeout: 10_000 }, async () => {
  const log = openLog();
  const session = await newSession();
  const subscription = new Feed().subscribe(session, false);
  await write(log, new Feed(), session, [said('first')]);
  const seen: number[] = [];
  const following = async () => {
    for await (const updates of follow(log, subscription, 0, true)) {
      seen.push(...updates.filter(isStored).map(({ seq }) => seq));
      if (seen.length === 1) await write(log, new Feed(), session, [said('second')]);
      else await dropSession(database.db, 1, session);
      subscription.lookAgain(Number.MAX_SAFE_INTEGER);
    }
  };
  await assert.rejects(following, /no longer exists/);
  assert.deepEqual(seen, [1, 2]);
});

test('a watcher of a turn whose session was dropped while it looked for the turn is told so', { timeout: 10_000 }, async () => {
  const session = await newSession();
  await dropSession(database.db, 1, session);
  const feed = new Feed();
  feed.drop(session);
  const turn = subscribeAgain(feed, session, 'turn_1', 0, false);
  await assert.rejects(watchTurn(openLog(), turn).next(), /no longer exists/);
});

test('live text is shown from its first word and without a gap, or not at all', async () => {
  const log = openLog();
  const feed = new Feed();
  const session = await newSession();
  const early = feed.subscribe(session, true);
  const fragment = (messageId: string, offset: number, text: string) =>
    ({ type: 'text-delta', turnId: 'turn_1', messageId, step: 1, agent: 'main', offset, text }) as const;
  const lost = feed.subscribe(session, true);
  feed.publish(session, [fragment('msg_a', 0, 'one ')]);
  lost.take(0);
  const broken = feed.subscribe(session, true);
  broken.take(0);
  broken.push(fragment('msg_a', 0, 'on'));
  feed.publish(session, [fragment('msg_a', 4, 'two ')]);
  const joined = feed.subscribe(session, true);
  early.push(fragment('msg_a', 0, 'one two th'));
  feed.publish(session, [fragment('msg_a', 8, 'three')]);
  const texts = async (subscription: typeof early) => {
    const shown: string[] = [];
    for await (const updates of follow(log, subscription, 0, false)) {
      for (const update of updates) {
        if (!isStored(update)) shown.push(update.text);
        else subscription.close();
      }
    }
    return shown;
  };
  const stored: NewEvent = { type: 'message-produced', data: { messageId: 'msg_a', text: 'one two three', step: 1, agent: 'main' } };
  await write(log, feed, session, [stored]);
  assert.equal((await texts(early)).join(''), 'one two three', 'a draft that came again brings what is new of it');
  assert.equal((await texts(joined)).join(''), 'one two three', 'whoever joins gets what was said before');
  assert.deepEqual(await texts(lost), [], 'whoever missed the first piece waits for the message');
  assert.deepEqual(await texts(broken), ['on', 'e two three'], 'whoever missed a later one gets the rest with it');
});

test('of a message that was read from the log no live text is shown any more, however late it comes', async () => {
  const log = openLog();
  const feed = new Feed();
  const session = await newSession();
  const subscription = feed.subscribe(session, true);
  const about = { messageId: 'msg_a', step: 1, agent: 'main' };
  const stored: NewEvent = { type: 'message-produced', data: { ...about, text: 'said' } };
  await write(log, new Feed(), session, [stored]);
  const seen: (number | string)[] = [];
  for await (const updates of follow(log, subscription, 0, true)) {
    for (const update of updates) seen.push(isStored(update) ? update.seq : update.text);
    if (seen.length > 1) break;
    feed.publish(session, [{ type: 'text-delta', turnId: 'turn_1', ...about, offset: 0, text: 'said' }]);
    await write(log, feed, session, [said('next')]);
  }
  assert.deepEqual(seen, [1, 2]);
});

test('of a message that was given up nothing more is shown once its step is stored or its turn has ended', async () => {
  const log = openLog();
  const begun = { type: 'text-delta', messageId: 'msg_given_up', step: 2, agent: 'main', offset: 0, text: 'begun' } as const;
  const usage = { input: 0, output: 0, cachedInput: 0 };
  const seenAfter = async (event: NewEvent) => {
    const feed = new Feed();
    const session = await newSession();
    const subscription = feed.subscribe(session, true);
    const [stored] = await write(log, new Feed(), session, [event]);
    await write(log, new Feed(), session, [said('next')]);
    feed.publish(session, [{ ...begun, turnId: stored?.turnId ?? '' }]);
    const seen: string[] = [];
    for await (const updates of follow(log, subscription, 0, true)) {
      for (const update of updates) seen.push(isStored(update) ? update.type : update.text);
      if (seen.length === 2) await write(log, feed, session, [said('last')]);
      if (seen.length > 2) feed.close();
    }
    return seen.slice(1);
  };
  const rest = ['message-received', 'message-received'];
  const message = { messageId: 'msg_b', text: 'other words', agent: 'main' };
  const stored: NewEvent[] = [
    { type: 'message-produced', data: { ...message, step: 2 } },
    { type: 'tool-called', data: { callId: 'call_1', tool: 'bash', input: {}, step: 2 } },
    { type: 'turn-ended', data: { stopReason: 'interrupted', usage, step: 1, stepUsage: usage } },
    { type: 'turn-failed', data: { code: 'broken_stream', message: 'It broke.', usage } },
  ];
  for (const event of stored) assert.deepEqual(await seenAfter(event), rest, event.type);
  const next = await seenAfter({ type: 'message-produced', data: { ...message, step: 1 } });
  assert.deepEqual(next, ['message-received', 'begun', 'message-received'], 'the step after it goes on');
});

test('what another process has stored comes before what it has begun to say since, also where something was stored here', async () => {
  const log = openLog();
  const elsewhere = new Feed();
  const begun = { type: 'text-delta', turnId: 'turn_1', messageId: 'msg_a', step: 1, agent: 'main', offset: 0, text: 'begun' } as const;
  const seenBy = async (feed: Feed, subscription: Subscription, count: number) => {
    const seen: (number | string)[] = [];
    for await (const updates of follow(log, subscription, 0, false)) {
      for (const update of updates) seen.push(isStored(update) ? update.seq : update.text);
      if (seen.length === count) feed.close();
    }
    return seen;
  };
  const only = await newSession();
  const feed = new Feed();
  const watching = feed.subscribe(only, true);
  await write(log, elsewhere, only, [said('there')]);
  feed.show(only, [begun], 1);
  assert.deepEqual(await seenBy(feed, watching, 2), [1, 'begun'], 'where no other notice came');

  for (const isStoredLast of [false, true]) {
    const session = await newSession();
    const feed = new Feed();
    const subscription = feed.subscribe(session, true);
    if (!isStoredLast) await write(log, feed, session, [said('here')]);
    await write(log, elsewhere, session, [said('there')]);
    feed.lookAgain(session, isStoredLast ? 1 : 2);
    feed.show(session, [begun], 0);
    if (isStoredLast) await write(log, feed, session, [said('here')]);
    assert.deepEqual(await seenBy(feed, subscription, 3), [1, 2, 'begun']);
  }
});

/** What a follower sees until it has seen the last. */
async function seqs(log: SessionLog, feed: Feed, session: string, after: number, last: number): Promise<number[]> {
  const subscription = feed.subscribe(session, true);
  const seen: number[] = [];
  for await (const updates of follow(log, subscription, after, true)) {
    for (const update of updates) if (isStored(update)) seen.push(update.seq);
    if (seen.at(-1) === last) subscription.close();
  }
  return seen;
}
