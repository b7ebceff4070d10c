import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import fc from 'fast-check';
import { sql } from 'kysely';
import { newId } from '../../../src/ids.ts';
import type { NewEvent, StoredEvent } from '../../../src/session/events.ts';
import { isStored } from '../../../src/session/events.ts';
import { Feed, type Subscription } from '../../../src/session/feed.ts';
import { follow } from '../../../src/session/follow.ts';
import { numberEvents, SessionLog } from '../../../src/session/log.ts';
import { dropSession } from '../../../src/session/sessions.ts';
import { startApp } from '../../support/app.ts';

const app = await startApp({ after });
const { database } = app.context;

const openLog = (processId = 'proc_test') => new SessionLog(database, processId, 5_000, false);

async function newSession(): Promise<string> {
  const answer = await app.request('POST', '/v1/sessions', {});
  return JSON.parse(answer.text).id;
}

const said = (text: string): NewEvent => ({ type: 'message-received', data: { messageId: newId('msg_'), text, silent: true } });

/** Writes as a surface does: append, and publish once it is durable. */
async function write(log: SessionLog, feed: Feed, session: string, events: NewEvent[]): Promise<StoredEvent[]> {
  const turn = newId('turn_');
  const { result, at } = await log.apply({ kind: 'note', org: 1, session, turn, events, messages: events.length });
  assert.equal(result.status, 'done');
  const stored = numberEvents(events, turn, result.seq ?? 0, at);
  feed.publish(session, stored);
  return stored;
}

async function readAll(log: SessionLog, session: string): Promise<StoredEvent[]> {
  const events: StoredEvent[] = [];
  for await (const page of log.readAll(session, 0, 100)) events.push(...page);
  return events;
}

const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

test('two hundred writers at once leave no gap and no duplicate, and each is told where its events are', async () => {
  const log = openLog();
  const feed = new Feed();
  const session = await newSession();
  const written = await Promise.all(
    upTo(200).map((writer) => write(log, feed, session, [said(`${writer} first`), said(`${writer} second`)])),
  );
  const events = await readAll(log, session);
  assert.deepEqual(
    events.map((event) => event.seq),
    upTo(400),
  );
  for (const own of written)
    for (const event of own) {
      const stored = events[event.seq - 1];
      assert.deepEqual([stored?.turnId, stored?.data], [event.turnId, event.data]);
      assert.equal(stored?.createdAt.getTime(), event.createdAt.getTime());
    }
});

test('writers of two logs, as of two processes, share one sequence', async () => {
  const logs = [openLog('proc_a'), openLog('proc_b')];
  const session = await newSession();
  await Promise.all(upTo(100).flatMap((writer) => logs.map((log) => write(log, new Feed(), session, [said(String(writer))]))));
  const [log] = logs;
  assert.ok(log);
  assert.deepEqual(
    (await readAll(log, session)).map((event) => event.seq),
    upTo(200),
  );
});

test('events of one write stand together and in order, whatever sizes the batches have', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(fc.string({ unit: 'grapheme' }), { minLength: 1, maxLength: 6 }), { minLength: 1, maxLength: 12 }),
      async (batches) => {
        const log = openLog();
        const session = await newSession();
        const clean = batches.map((texts) => texts.map((text) => text.replaceAll('\0', '').toWellFormed()));
        const written = await Promise.all(clean.map((texts) => write(log, new Feed(), session, texts.map(said))));
        const events = await readAll(log, session);
        assert.deepEqual(
          events.map((event) => event.seq),
          upTo(clean.flat().length),
        );
        written.forEach((own, index) => {
          const texts = own.map(({ seq }) => {
            const event = events[seq - 1];
            return event?.type === 'message-received' ? event.data.text : undefined;
          });
          assert.deepEqual(texts, clean[index]);
        });
      },
    ),
    { numRuns: 15 },
  );
});

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
  for await (const updates of follow(log, subscription, session, 0, false)) {
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
  const { read } = log;
  t.mock.method(
    log,
    'read',
    async (...page: Parameters<typeof read>) => {
      const events = await read.apply(log, page);
      await write(log, elsewhere, session, [said('second')]);
      subscription.lookAgain(Number.MAX_SAFE_INTEGER);
      return events;
    },
    { times: 1 },
  );
  const seen: number[] = [];
  for await (const updates of follow(log, subscription, session, 0, false)) {
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
    for await (const updates of follow(log, subscription, session, 0, false)) seen.push(...updates.filter(isStored).map(({ seq }) => seq));
  };
  await assert.rejects(following, /no longer exists/);
  assert.deepEqual(seen, [1]);
});

test('so is one that is only told to look again, not how far', { timeout: 10_000 }, async () => {
  const log = openLog();
  const session = await newSession();
  const subscription = new Feed().subscribe(session, false);
  await write(log, new Feed(), session, [said('first')]);
  const seen: number[] = [];
  const following = async () => {
    for await (const updates of follow(log, subscription, session, 0, true)) {
      seen.push(...updates.filter(isStored).map(({ seq }) => seq));
      if (seen.length === 1) await write(log, new Feed(), session, [said('second')]);
      else await dropSession(database.db, 1, session);
      subscription.lookAgain(Number.MAX_SAFE_INTEGER);
    }
  };
  await assert.rejects(following, /no longer exists/);
  assert.deepEqual(seen, [1, 2]);
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
  early.push(fragment('msg_a', 0, 'one two th'));
  feed.publish(session, [fragment('msg_a', 8, 'three')]);
  const texts = async (subscription: typeof early) => {
    const shown: string[] = [];
    for await (const updates of follow(log, subscription, session, 0, false)) {
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
  assert.deepEqual(await texts(lost), [], 'whoever missed the first piece waits for the message');
  assert.deepEqual(await texts(broken), ['on', 'e two three'], 'whoever missed a later one gets the rest with it');
});

test('what another process has stored comes before what it has begun to say since, also where something was stored here', async () => {
  const log = openLog();
  const elsewhere = new Feed();
  const begun = { type: 'text-delta', turnId: 'turn_1', messageId: 'msg_a', step: 1, agent: 'main', offset: 0, text: 'begun' } as const;
  const seenBy = async (session: string, feed: Feed, subscription: Subscription, count: number) => {
    const seen: (number | string)[] = [];
    for await (const updates of follow(log, subscription, session, 0, false)) {
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
  assert.deepEqual(await seenBy(only, feed, watching, 2), [1, 'begun'], 'where no other notice came');

  for (const isStoredLast of [false, true]) {
    const session = await newSession();
    const feed = new Feed();
    const subscription = feed.subscribe(session, true);
    if (!isStoredLast) await write(log, feed, session, [said('here')]);
    await write(log, elsewhere, session, [said('there')]);
    feed.lookAgain(session, isStoredLast ? 1 : 2);
    feed.show(session, [begun], 0);
    if (isStoredLast) await write(log, feed, session, [said('here')]);
    assert.deepEqual(await seenBy(session, feed, subscription, 3), [1, 2, 'begun']);
  }
});

test('one bad write fails alone: its neighbours in the same statement are stored', async () => {
  const log = openLog();
  const session = await newSession();
  const apply = (text: string) => log.apply({ kind: 'note', org: 1, session, turn: newId('turn_'), events: [said(text)], messages: 1 });
  const outcomes = await Promise.allSettled([apply('good'), apply('bad \0'), apply('also good')]);
  assert.deepEqual(
    outcomes.map((outcome) => outcome.status),
    ['fulfilled', 'rejected', 'fulfilled'],
  );
  assert.equal((await readAll(log, session)).length, 2);
});

/** What a follower sees until it has seen the last. */
async function seqs(log: SessionLog, feed: Feed, session: string, after: number, last: number): Promise<number[]> {
  const subscription = feed.subscribe(session, true);
  const seen: number[] = [];
  for await (const updates of follow(log, subscription, session, after, true)) {
    for (const update of updates) if (isStored(update)) seen.push(update.seq);
    if (seen.at(-1) === last) subscription.close();
  }
  return seen;
}

test('the session of a message is looked up by its id, also in a table that was never analyzed', async () => {
  // As the function that admits turns does: its plan is made once, when the planner knows nothing of the table.
  const plan = await database.db.transaction().execute(async (transaction) => {
    await sql`set local enable_seqscan = off`.execute(transaction);
    await sql`set local enable_hashjoin = off`.execute(transaction);
    await sql`set local enable_mergejoin = off`.execute(transaction);
    const { rows } = await sql`explain (format json) select s.last_seq
      from unnest(array[${'ses_1'}]::text[], array[1]::integer[]) o (session, org)
      join sessions s on s.id = o.session and s.org_id = o.org where s.active_turn_id is null and s.pending_input is null`.execute(
      transaction,
    );
    return rows;
  });
  assert.match(JSON.stringify(plan), /"Index Name":"sessions_pkey"/);
});
