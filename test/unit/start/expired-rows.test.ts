// On PGlite: PostgreSQL counts the scans of each connection, and reports them later.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
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
  await deleteExpiredRows(db, 10);
  assert.deepEqual(await scans(), before);
  const { rows } = await sql<{ count: number }>`select count(*)::integer as count from idempotency_keys`.execute(db);
  assert.deepEqual(rows, [{ count: 20_000 }]);
});

test('a step of the sweep that fails is reported, and does not keep the next ones from being done', async (t) => {
  const { db, close } = await openTestDatabase();
  t.after(close);
  await sql`drop table user_rate_limits`.execute(db);
  t.mock.timers.enable({ apis: ['setInterval'] });
  const done: string[] = [];
  const logger = createLogger('warn', { write: (line) => done.push(JSON.parse(line).msg) });
  const sweeper = sweepExpiredRows(db, new Feed(), logger, async () => void done.push('stopped'));
  t.mock.timers.tick(10 * 60_000);
  await sweeper.stop();
  assert.deepEqual(done, ['could not delete expired rows; will retry', 'stopped']);
});
