// On PGlite: one test changes how the only connection reads a table.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import fc from 'fast-check';
import { sql } from 'kysely';
import { newId } from '../../../src/ids.ts';
import type { NewEvent, StoredEvent } from '../../../src/session/events.ts';
import { Feed } from '../../../src/session/feed.ts';
import { SessionLog } from '../../../src/session/log.ts';
import { startApp } from '../../support/app.ts';
import { engine } from '../../support/engine.ts';
import { until } from '../../support/until.ts';
import { admission, said, upTo, write } from '../../support/written-log.ts';

const app = await startApp({ after });
const { database } = app.context;

const openLog = (processId = 'proc_test') => new SessionLog(database, processId, 5_000, false);

async function newSession(): Promise<string> {
  const answer = await app.request('POST', '/v1/sessions', {});
  return JSON.parse(answer.text).id;
}

async function readAll(log: SessionLog, session: string): Promise<StoredEvent[]> {
  const events: StoredEvent[] = [];
  for await (const page of log.readAll(session)) events.push(...page);
  return events;
}

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

test('a page has few events where they are long, also if they are short as they are stored', async () => {
  const log = openLog();
  const session = await newSession();
  const short = upTo(700).map((number) => said(`${number}`));
  const random = randomBytes(75_000).toString('hex');
  const long = [...upTo(30).map(() => said(random)), ...upTo(30).map(() => said('x'.repeat(150_000)))];
  const written = await write(log, new Feed(), session, [...short, ...long]);
  const pages: StoredEvent[][] = [];
  for await (const page of log.readAll(session)) pages.push(page);
  const [first, ...rest] = pages.map((page) => page.length);
  assert.equal(first, 500);
  for (const page of pages) assert.ok(JSON.stringify(page).length < 10 * 2 ** 20, `${page.length} events`);
  assert.ok(rest.length > 5, `${rest.length} more pages`);
  assert.deepEqual(
    pages.flat().map(({ seq, data }) => [seq, data]),
    written.map(({ seq, data }) => [seq, data]),
  );
});

test('events are read in their order, however the database finds them', {
  skip: engine === 'postgres' && 'a pool has many connections',
}, async (t) => {
  const session = await newSession();
  await sql`insert into events (org_id, session_id, seq, turn_id, type, data, created_at)
    select 1, ${session}, seq, 'turn_1', 'message-received', '{}', now() from generate_series(501, 1, -1) seq`.execute(database.db);
  const scans = (are: 'on' | 'off') =>
    sql.raw(`set enable_indexscan = ${are}; set enable_bitmapscan = ${are}; set enable_indexonlyscan = ${are}`);
  t.after(() => scans('on').execute(database.db));
  await scans('off').execute(database.db);
  const log = openLog();
  const seqs = (events: StoredEvent[]) => events.map((event) => event.seq);
  assert.deepEqual(seqs(await log.read(session, 0, 3)), [1, 2, 3]);
  assert.deepEqual(seqs(await readAll(log, session)), upTo(501));
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

test('what comes fast waits for more of its organization until there is enough or all, and never for another', async ({ mock }) => {
  const statements: number[] = [];
  const counting = {
    ...database,
    async prepared<Row>(...[, [operations]]: Parameters<typeof database.prepared>): Promise<Row[]> {
      const { length } = JSON.parse(String(operations));
      statements.push(length);
      return [{ answer: { at: new Date(), results: upTo(length).map(() => ({ status: 'done' })) } }] as Row[];
    },
  };
  const log = new SessionLog(counting, 'proc_gathering', 5_000, false);
  // No wait ends by itself.
  mock.timers.enable({ apis: ['setTimeout'] });
  const apply = (org: number, count: number) =>
    Promise.all(upTo(count).map(() => log.apply({ kind: 'note', org, session: 's', turn: 't', events: [], messages: 0 })));
  await apply(1, 10);
  const waiting = apply(1, 19);
  await setImmediate();
  assert.deepEqual(statements, [10]);
  await Promise.all([waiting, apply(1, 1)]);
  assert.deepEqual(statements, [10, 20]);
  await Promise.all([apply(1, 2), apply(2, 1)]);
  assert.deepEqual(statements, [10, 20, 3]);
  log.countRunning = () => 4;
  await apply(1, 4);
  assert.deepEqual(statements, [10, 20, 3, 4]);
});

test('with thousands of writes waiting no message is taken any more, but what running turns write is', async () => {
  const held = Promise.withResolvers<void>();
  let written = 0;
  const busy: typeof database = {
    ...database,
    async prepared<Row>(...[, [operations]]: Parameters<typeof database.prepared>): Promise<Row[]> {
      await held.promise;
      const { length } = JSON.parse(String(operations));
      written += length;
      return [{ answer: { at: new Date(), results: upTo(length).map(() => ({ status: 'done' })) } }] as Row[];
    },
  };
  const log = new SessionLog(busy, 'proc_busy', 5_000, false);
  const note = () => log.apply({ kind: 'note', org: 1, session: 's', turn: 't', events: [], messages: 0 });
  const admit = () => log.apply(admission('s', 't'));
  const writes: Promise<unknown>[] = [note()];
  await setImmediate();
  for (const _ of upTo(4_095)) writes.push(note());
  writes.push(admit());
  await assert.rejects(admit(), { kind: 'unavailable', retryAfterSeconds: 1 });
  writes.push(note());
  held.resolve();
  await Promise.all(writes);
  assert.equal(written, 4_098);
});

test('a batch of many sessions tells the other processes of each how far its log goes', { timeout: 20_000 }, async () => {
  const heard: string[] = [];
  await database.listen((payload) => {
    const [process, subject, ...sessions] = payload.split(' ');
    if (process === 'proc_told' && subject === 'sessions') heard.push(...sessions);
  });
  const log = new SessionLog(database, 'proc_told', 5_000, true);
  const sessions = await Promise.all(upTo(90).map(newSession));
  await Promise.all(sessions.map((session) => write(log, new Feed(), session, [said('Hi')])));
  await until(async () => heard.length >= sessions.length);
  assert.deepEqual(heard.toSorted(), sessions.map((session) => `${session}:1`).toSorted());
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

test('a write that lost against another process is written the second time, also when it was alone', async () => {
  let statements = 0;
  const losing = {
    ...database,
    async prepared<Row>(...call: Parameters<typeof database.prepared>): Promise<Row[]> {
      statements += 1;
      if (statements === 1) throw Object.assign(new Error('deadlock detected'), { code: '40P01' });
      return database.prepared<Row>(...call);
    },
  };
  const log = new SessionLog(losing, 'proc_losing', 5_000, false);
  const session = await newSession();
  const note = { kind: 'note' as const, org: 1, session, turn: newId('turn_'), events: [said('hello')], messages: 1 };
  assert.equal((await log.apply(note)).result.status, 'done');
});

test('a write that is tried apart from its batch, and whose answer is lost, leaves its session in doubt', async () => {
  const failures = [Object.assign(new Error('lost'), { code: '40P01' }), Object.assign(new Error('cut'), { code: 'ECONNRESET' })];
  const cut: typeof database = {
    ...database,
    engine: 'postgres',
    prepared: async (statement, values) => {
      const failure = statement.name === 'apply-operations' ? failures.shift() : undefined;
      if (failure !== undefined) throw failure;
      return database.prepared(statement, values);
    },
  };
  const log = new SessionLog(cut, 'proc_cut', 5_000, false);
  const sessions = [await newSession(), await newSession()];
  const written = await Promise.allSettled(sessions.map((session) => write(log, new Feed(), session, [said('hi')])));
  assert.deepEqual(
    written.map(({ status }) => status),
    ['rejected', 'fulfilled'],
  );
  const told: string[] = [];
  log.onWritten = (ids) => told.push(...ids);
  assert.deepEqual([...log.takeDoubtful()], [sessions[0]]);
  assert.deepEqual(told, [sessions[0]], 'other processes hear of it too');
  assert.equal(await log.holderName.current(), 'proc_cut.1');
});

test('a write that cannot be turned into JSON fails alone', async () => {
  const log = openLog();
  const session = await newSession();
  const circular: Record<string, unknown> = {};
  circular.self = circular;
  const event = (input: unknown): NewEvent => ({ type: 'tool-called', data: { callId: 'call_1', tool: 'bash', input, step: 1 } });
  const apply = (input: unknown) => log.apply({ kind: 'note', org: 1, session, turn: newId('turn_'), events: [event(input)], messages: 0 });
  const outcomes = await Promise.allSettled([apply({}), apply(circular), apply({})]);
  assert.deepEqual(
    outcomes.map((outcome) => outcome.status),
    ['fulfilled', 'rejected', 'fulfilled'],
  );
});

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

test('a turn is found by its id and not among all that run, also in a table that was never analyzed', async () => {
  const scans = async () => {
    const { rows } = await sql<{ count: string }>`select pg_stat_get_numscans(oid) + pg_stat_get_xact_numscans(oid) as count
      from pg_class where relname = 'leased_turns'`.execute(database.db);
    return Number(rows[0]?.count);
  };
  const before = await scans();
  for (const _ of upTo(20)) {
    const answer = await app.request('POST', `/v1/sessions/${await newSession()}/messages`, { text: 'hello' });
    assert.equal(answer.status, 200, answer.text);
  }
  // Leases are claimed by that index, every second or two. It keeps what has ended until it is vacuumed.
  assert.ok((await scans()) - before < 10);
});
