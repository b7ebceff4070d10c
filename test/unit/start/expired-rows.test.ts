// On PGlite: PostgreSQL counts the scans of each connection, and reports them later.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextRound } from 'node:timers/promises';
import { type KyselyPlugin, sql } from 'kysely';
import type { Db } from '../../../src/database/database.ts';
import { dropFilesOfDeletedAgents } from '../../../src/instances/workspace.ts';
import { dropEach } from '../../../src/session/drop-sessions.ts';
import { Feed } from '../../../src/session/feed.ts';
import { deleteExpiredRows, sweepExpiredRows } from '../../../src/start/expired-rows.ts';
import { createLogger } from '../../../src/telemetry/logger.ts';
import { engine, openTestDatabase } from '../../support/engine.ts';

test('expired answers are found by their age, without reading those that are kept', {
  skip: engine === 'postgres' && 'each of its connections counts its scans, and tells of them later',
}, async (t) => {
  const { db, close } = await openTestDatabase();
  t.after(close);
  /** In any order, and the expired ones last: they are where others were deleted before. */
  const add = (count: number, hours: number) =>
    sql`insert into idempotency_keys (org_id, key, fingerprint, created_at)
    select 1, ${hours}::text || '-' || n, '', now() - ${hours} * interval '1 hour' - random() * interval '20 hours'
    from generate_series(1, ${count}::integer) n`.execute(db);
  await add(20_000, 1);
  await add(2_000, 25);
  await sql`analyze idempotency_keys`.execute(db);
  const scans = async () => {
    await sql`select pg_stat_force_next_flush()`.execute(db);
    const { rows } = await sql`select seq_scan from pg_stat_user_tables where relname = 'idempotency_keys'`.execute(db);
    return rows;
  };
  const before = await scans();
  await deleteExpiredRows(db, { batch: 10 });
  assert.deepEqual(await scans(), before);
  const { rows } = await sql<{ count: number }>`select count(*)::integer as count from idempotency_keys`.execute(db);
  assert.deepEqual(rows, [{ count: 20_000 }]);
});

test('a step of the sweep that fails is reported, and does not keep the next ones from being done', async (t) => {
  const { db, close } = await openTestDatabase();
  t.after(close);
  await sql`drop table user_rate_limits`.execute(db);
  await sql`insert into workspace_files (org_id, agent_id, instance_key, path, content, size, updated_at)
    values (1, 2, 'ahead:of an operation that never came', 'a', 'x', 0, now() - interval '2 hours')`.execute(db);
  t.mock.timers.enable({ apis: ['setInterval'] });
  const done: string[] = [];
  const logger = createLogger('warn', { write: (line) => done.push(JSON.parse(line).msg) });
  const sweeper = sweepExpiredRows(db, new Feed(), logger, async () => void done.push('stopped'));
  t.mock.timers.tick(10 * 60_000);
  while (done.length < 2) await nextRound();
  await sweeper.stop();
  assert.deepEqual(done, ['could not delete expired rows; will retry', 'stopped']);
  assert.deepEqual((await sql`select path from workspace_files`.execute(db)).rows, []);
});

test('a sweep that is under way when the server stops ends with its batch', async (t) => {
  const { db, close } = await openTestDatabase();
  t.after(close);
  await sql`insert into idempotency_keys (org_id, key, fingerprint, created_at)
    select 1, n, '', now() - interval '25 hours' from generate_series(1, 2500) n`.execute(db);
  t.mock.timers.enable({ apis: ['setInterval'] });
  let stopped: Promise<void> | undefined;
  let statements = 0;
  const stopsAtFirst: KyselyPlugin = {
    transformQuery: ({ node }) => node,
    async transformResult({ result }) {
      statements += 1;
      stopped ??= sweeper.stop();
      return result;
    },
  };
  const sweeper = sweepExpiredRows(db.withPlugin(stopsAtFirst), new Feed(), createLogger('warn'), () => assert.fail('goes on'));
  t.mock.timers.tick(10 * 60_000);
  while (stopped === undefined) await nextRound();
  await stopped;
  const { rows } = await sql<{ count: number }>`select count(*)::integer as count from idempotency_keys`.execute(db);
  assert.deepEqual([statements, rows], [1, [{ count: 1_500 }]]);
});

test('the files of deleted agents are deleted so many bytes at a time', async (t) => {
  const { db, close } = await openTestDatabase();
  t.after(close);
  await addFilesOfDeletedAgent(db, [100, 5, 5, 5, 5, 5, 5]);
  const steps: number[] = [];
  const counts: KyselyPlugin = {
    transformQuery: ({ node }) => node,
    async transformResult({ result }) {
      if (result.rows.some((row) => 'size' in row)) steps.push(result.rows.length);
      return result;
    },
  };
  await dropFilesOfDeletedAgents(db.withPlugin(counts), { bytes: 12 });
  assert.deepEqual([steps.length > 2, steps.reduce((sum, count) => sum + count, 0)], [true, 7], `${steps}`);
});

test('files of deleted agents, and sessions, are left to the next sweep too when the server stops', async (t) => {
  const { db, close } = await openTestDatabase();
  t.after(close);
  await addFilesOfDeletedAgent(db, Array(25).fill(5));
  const stopping = new AbortController();
  const stopsAtDelete: KyselyPlugin = {
    transformQuery: ({ node }) => node,
    async transformResult({ result }) {
      if (result.rows.length === 10) stopping.abort();
      return result;
    },
  };
  await dropFilesOfDeletedAgents(db.withPlugin(stopsAtDelete), { batch: 10, signal: stopping.signal });
  const { rows } = await sql<{ count: number }>`select count(*)::integer as count from workspace_files`.execute(db);
  assert.deepEqual(rows, [{ count: 15 }]);

  const dropped: string[] = [];
  const stoppingLater = new AbortController();
  const drop = async (row: { id: string }) => {
    dropped.push(row.id);
    if (row.id === 'b') stoppingLater.abort();
    return true;
  };
  await dropEach([{ id: 'a' }, { id: 'b' }, { id: 'c' }], new Feed(), drop, stoppingLater.signal);
  assert.deepEqual(dropped, ['a', 'b']);
});

test('no sweep begins while another one is under way', async (t) => {
  const { db, close } = await openTestDatabase();
  t.after(close);
  t.mock.timers.enable({ apis: ['setInterval'] });
  const { promise: over, resolve: end } = Promise.withResolvers<void>();
  let begun = 0;
  const sweeper = sweepExpiredRows(db, new Feed(), createLogger('warn'), () => {
    begun += 1;
    return over;
  });
  for (let sweeps = 0; sweeps < 3; sweeps += 1) t.mock.timers.tick(10 * 60_000);
  while (begun === 0) await nextRound();
  const stopped = sweeper.stop();
  end();
  await stopped;
  assert.equal(begun, 1);
});

async function addFilesOfDeletedAgent(db: Db, sizes: number[]): Promise<void> {
  await sql`insert into organizations (id, slug, name) overriding system value values (77, 'leaving', '')`.execute(db);
  const gone = { org_id: 77, slug: 'gone', name: '', deleted_at: new Date() };
  const { id } = await db.insertInto('agents').values(gone).returning('id').executeTakeFirstOrThrow();
  await sql`insert into workspace_files (org_id, agent_id, instance_key, path, content, size)
    select 77, ${id}, 'shared', n, '', size from unnest(${sizes}::integer[]) with ordinality f (size, n)`.execute(db);
}
