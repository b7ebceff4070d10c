// On PGlite: it is under test.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { sql } from 'kysely';
import { openPGlite } from '../../../src/database/pglite.ts';
import { openTestDatabase } from '../../support/engine.ts';
import { mountSmallDisk, noSmallDisk } from '../../support/small-disk.ts';

const database = await openTestDatabase();
after(() => database.close());

test('a statement that takes long holds up nothing but other statements', async () => {
  let isDone = false;
  let rounds = 0;
  const long = sql`select count(*) from generate_series(1, 1000000)`.execute(database.db).finally(() => {
    isDone = true;
  });
  for (; !isDone; rounds += 1) await sleep(1);
  await long;
  assert.ok(rounds > 10, `the event loop went round ${rounds} times`);
});

test('the engine goes on with the next statement while this thread is busy', async () => {
  const long = database.prepared({ name: 'long', text: 'select pg_sleep(0.2)' }, []);
  const next = database.prepared<{ ms: number }>(
    { name: 'now', text: 'select extract(epoch from clock_timestamp())::float8 * 1000 as ms' },
    [],
  );
  // Until both have been sent.
  await sleep(20);
  assert.equal(database.pool().waiting, 1);
  const busyUntil = Date.now() + 2_000;
  while (Date.now() < busyUntil);
  await long;
  const [row] = await next;
  assert.ok((row?.ms ?? Number.POSITIVE_INFINITY) < busyUntil);
  assert.equal(database.pool().waiting, 0);
});

test('of statements that are under way together, one that fails fails alone', async () => {
  const divide = (name: string, by: number) => database.prepared({ name, text: 'select 6 / $1::integer as share' }, [by]);
  const [two, none, three, again] = await Promise.allSettled([divide('a', 2), divide('b', 0), divide('c', 3), divide('b', 6)]);
  assert.deepEqual(two, { status: 'fulfilled', value: [{ share: 3 }] });
  assert.equal(none.status === 'rejected' && none.reason.code, '22012');
  assert.deepEqual(three, { status: 'fulfilled', value: [{ share: 2 }] });
  assert.deepEqual(again, { status: 'fulfilled', value: [{ share: 1 }] });
});

test('a transaction gets its turn although some statement is always under way, and none of them gets into it', async () => {
  let isDone = false;
  const isolated = { name: 'in-transaction', text: "select current_setting('parley.test', true) as value" };
  const seen = new Set<unknown>();
  const keepBusy = async () => {
    while (!isDone) for (const { value } of await database.prepared<{ value: string | null }>(isolated, [])) seen.add(value || null);
  };
  const busy = [keepBusy(), keepBusy(), keepBusy()];
  await database.db.transaction().execute(async (transaction) => {
    await sql`select set_config('parley.test', 'inside', true)`.execute(transaction);
    await sleep(50);
  });
  isDone = true;
  await Promise.all(busy);
  assert.deepEqual([...seen], [null]);
});

test('closing waits for a statement that is under way, and ends', async () => {
  const other = await openTestDatabase();
  const long = sql`select count(*) from generate_series(1, 1000000)`.execute(other.db);
  await sleep(10);
  const closed = other.close().then(() => 'closed');
  assert.equal((await long).rows.length, 1);
  assert.equal(await Promise.race([closed, sleep(10_000, 'still open', { ref: false })]), 'closed');
});

test('the engine keeps nothing of its answers', async (t) => {
  const thread = new Worker(new URL('../../../src/database/pglite-thread.ts', import.meta.url));
  t.after(() => thread.terminate());
  await once(thread, 'message');
  const rows = statement('select n from generate_series(1, 20000) n');
  for (let times = 0; times < 20; times += 1) {
    thread.postMessage(rows);
    const [answer] = await once(thread, 'message');
    assert.ok(answer.length > 20_000);
  }
  const { used_heap_size: used } = await thread.getHeapStatistics();
  assert.ok(used < 50_000_000, `${used} bytes are in use`);
});

/** A statement in PostgreSQL's wire protocol. */
function statement(text: string): Buffer {
  const message = Buffer.from(`Q1234${text}\0`);
  message.writeInt32BE(message.length - 1, 1);
  return message;
}

test('others are kept out of a database whose data directory they may read', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'parley-pglite-'));
  t.after(() => rmSync(directory, { recursive: true }));
  chmodSync(directory, 0o755);
  await (await openPGlite(directory)).close();
  assert.equal(statSync(join(directory, 'db')).mode & 0o777, 0o700);
});

test('a first start that fails leaves nothing that passes for a database', { skip: noSmallDisk }, async (t) => {
  const { path } = mountSmallDisk(t, 16);
  await assert.rejects(openPGlite(path), { code: '53100' });
  assert.deepEqual(readdirSync(path), []);
});

test('where memory is short the engine is not optimized, which takes more than a gigabyte', (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'parley-pglite-'));
  t.after(() => rmSync(directory, { recursive: true }));
  const program = join(directory, 'program.mjs');
  // What takes it is a function that runs hot while a database is made.
  writeFileSync(
    program,
    `process.availableMemory = () => 2 ** 30;
    const { startPGlite } = await import(${JSON.stringify(import.meta.resolve('../../../src/database/pglite.ts'))});
    const database = await startPGlite(undefined);
    for (const until = Date.now() + 1_500; Date.now() < until; ) await database.prepared({ name: 'one', text: 'select 1' }, []);
    await database.close();
    console.log(process.resourceUsage().maxRSS);`,
  );
  const maxKiB = Number(execFileSync(process.execPath, [program], { encoding: 'utf8' }));
  assert.ok(maxKiB < 900 * 1024, `it took ${Math.round(maxKiB / 1024)} MiB`);
});

test('a statement that fails leaves the connection and what it has prepared', async () => {
  const divide = { name: 'divide', text: 'select 12 / $1::int as quotient' };
  await assert.rejects(database.prepared(divide, [0]), { code: '22012' });
  assert.deepEqual(await database.prepared(divide, [4]), [{ quotient: 3 }]);
  const prepared = await sql<{ name: string }>`select name from pg_prepared_statements where name = 'divide'`.execute(database.db);
  assert.deepEqual(prepared.rows, [{ name: 'divide' }]);
  await assert.rejects(
    database.db.transaction().execute((db) => sql`select 1 / 0`.execute(db)),
    { code: '22012' },
  );
  assert.deepEqual(database.pool(), { open: 1, idle: 1, waiting: 0 });
});
