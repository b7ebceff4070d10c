// On PGlite: PostgreSQL does this work itself.
import assert from 'node:assert/strict';
import { open } from 'node:fs/promises';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { sql } from 'kysely';
import { keepUp, vacuum } from '../../../src/database/upkeep.ts';
import { createLogger } from '../../../src/telemetry/logger.ts';
import { openTestDatabase } from '../../support/engine.ts';
import { until } from '../../support/until.ts';

test('upkeep makes room for what updates leave behind, and tells the planner how large tables are', async () => {
  const { db, exclusively, close } = await openTestDatabase();
  await exclusively((_db, runScript) =>
    runScript(`
    create table session (id integer primary key, updated_at bigint not null);
    create index by_activity on session (updated_at);
    insert into session select n, n from generate_series(1, 200) n`),
  );
  let clock = 1_000;
  const touchAll = async (rounds: number) => {
    for (let round = 0; round < rounds; round += 1, clock += 1_000) await sql`update session set updated_at = ${clock} + id`.execute(db);
  };
  const bytes = async () =>
    (await sql<{ size: number }>`select pg_indexes_size('session')::integer as size`.execute(db)).rows[0]?.size ?? 0;

  for (let hour = 0; hour < 3; hour += 1) {
    await touchAll(20);
    await vacuum(db, () => {});
  }
  const kept = await bytes();
  for (let hour = 0; hour < 6; hour += 1) {
    await touchAll(20);
    await vacuum(db, () => {});
  }
  assert.ok((await bytes()) <= kept, `${await bytes()} bytes after ${kept}`);
  await touchAll(120);
  assert.ok((await bytes()) > kept, 'without upkeep they grow');
  const { rows } = await sql<{ reltuples: number }>`select reltuples from pg_class where relname = 'session'`.execute(db);
  assert.equal(rows[0]?.reltuples, 200);
  const full = () => {
    throw new Error('full');
  };
  await assert.rejects(vacuum(db, full), /full/, 'on a full disk nothing is written');
  await close();
});

test('a large table is vacuumed only when a fifth of it is dead rows, and then its space is used again', async (t) => {
  const { db, exclusively, close } = await openTestDatabase();
  t.after(close);
  await exclusively((_db, runScript) =>
    runScript('create table large (id integer primary key); insert into large select generate_series(1, 10000)'),
  );
  let last = 10_000;
  /** As the sweeps do it: the oldest rows are deleted, and new ones come. */
  const replace = async (count: number) => {
    await sql`delete from large where id in (select id from large order by id limit ${count})`.execute(db);
    await sql`insert into large select generate_series(${last + 1}::integer, ${last + count}::integer)`.execute(db);
    last += count;
  };
  const measure = async () =>
    (
      await sql<{ bytes: number; vacuums: number }>`select pg_relation_size('large')::integer as bytes, vacuum_count::integer as vacuums
        from pg_stat_user_tables where relname = 'large'`.execute(db)
    ).rows[0] ?? { bytes: 0, vacuums: 0 };
  const upkeep = async () => {
    await sql`select pg_stat_force_next_flush()`.execute(db);
    await vacuum(db, () => {}, 0);
    await sql`select pg_stat_force_next_flush()`.execute(db);
  };

  await replace(1_000);
  await upkeep();
  assert.equal((await measure()).vacuums, 0);
  await replace(2_000);
  await upkeep();
  const { bytes, vacuums } = await measure();
  assert.equal(vacuums, 1);
  for (let day = 0; day < 2; day += 1) {
    await replace(3_000);
    await upkeep();
  }
  assert.deepEqual(await measure(), { bytes, vacuums: 3 });
});

test("the engine's own log is cut off when it is long, and not before; what it stands for is on the disk by then", async (t) => {
  const file = await open(import.meta.filename);
  t.after(() => file.close());
  const sync = t.mock.method(Object.getPrototypeOf(file), 'sync');
  t.mock.timers.enable({ apis: ['setInterval'] });
  const { db, close } = await openTestDatabase();
  t.after(close);
  const lastCheckpoint = async () =>
    (await sql<{ at: string }>`select redo_lsn::text as at from pg_control_checkpoint()`.execute(db)).rows[0]?.at;
  /** Each begins another file of 16 MiB. */
  const write = async (files: number) => {
    for (let count = 0; count < files; count += 1) await sql`select pg_logical_emit_message(true, '', ''), pg_switch_wal()`.execute(db);
  };

  const first = await lastCheckpoint();
  await write(4);
  t.mock.timers.tick(60_000);
  await write(5);
  assert.equal(await lastCheckpoint(), first, '64 MiB are not long');
  assert.equal(sync.mock.callCount(), 0);
  t.mock.timers.tick(60_000);
  await until(async () => (await lastCheckpoint()) !== first);
  const files = sync.mock.callCount();
  assert.ok(files > 300, `${files} files`);
  await until(async () => sync.mock.callCount() >= 2 * files - 50, 10_000, 'the checkpoint on the disk too');
});

test('upkeep that fails is logged, but not when it fails because the database closes', async (t) => {
  const { db, close } = await openTestDatabase();
  t.after(close);
  t.mock.timers.enable({ apis: ['setInterval', 'setTimeout'] });
  const lines: string[] = [];
  let isClosing = false;
  let failures = 0;
  const end = keepUp(
    db,
    () => {
      failures += 1;
      if (isClosing) end();
      throw new Error('full');
    },
    undefined,
    createLogger('warn', { write: (line: string) => void lines.push(line) }, 0),
  );
  const minuteLater = async () => {
    t.mock.timers.tick(60_000);
    await setImmediate();
  };
  await minuteLater();
  assert.match(lines.join(), /"could not shorten the write-ahead log of the database; will retry in a minute"/);
  assert.match(lines.join(), /full/);
  isClosing = true;
  await minuteLater();
  assert.deepEqual([failures, lines.length], [2, 1]);
});

test('a vacuum that fails is logged', async (t) => {
  const { db, close } = await openTestDatabase();
  t.after(close);
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { promise: line, resolve } = Promise.withResolvers<string>();
  const full = () => {
    throw new Error('full');
  };
  t.after(keepUp(db, full, undefined, createLogger('warn', { write: resolve })));
  t.mock.timers.tick(10 * 60_000);
  assert.match(await line, /full.*"could not vacuum the database; will retry in an hour"/);
});
