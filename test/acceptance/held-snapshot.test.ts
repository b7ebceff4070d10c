// Somebody else's transaction is open for long, as that of a backup is: PostgreSQL then keeps what has ended, in its indexes too.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { startApp } from '../support/app.ts';
import { engine } from '../support/engine.ts';

test('the look for turns of silent processes does not read all that have ended', {
  skip: engine === 'pglite' && 'it has one connection',
}, async (t) => {
  const { context } = await startApp(t, { settings: { PARLEY_LEASE_MS: '500' } });
  const other = new pg.Client({ connectionString: context.config.DATABASE_URL });
  const mine = new pg.Client({ connectionString: context.config.DATABASE_URL });
  await Promise.all([other.connect(), mine.connect()]);
  try {
    // The first look, which is for all.
    await sleep(500);
    await other.query('begin isolation level repeatable read; select 1');
    await mine.query(`insert into turns (id, org_id, agent_id, session_id, state, input, process_id, lease_until)
      select 'turn_' || n, 1, 1, 'ses_' || n, 'ended', '{}', null, now() - interval '1 hour' from generate_series(1, 2000) n`);
    await mine.query(`begin;
      update turns set state = 'running';
      update turns set state = 'ended', lease_until = null;
      commit`);
    const read = async () => {
      const { rows } = await mine.query(
        `select idx_tup_read::integer as count from pg_stat_user_indexes where indexrelname = 'leased_turns'`,
      );
      return rows[0].count;
    };
    await sleep(1_500);
    const before = await read();
    await sleep(3_000);
    // Twenty looks and more.
    assert.ok((await read()) - before < 4_000, String((await read()) - before));
  } finally {
    await Promise.all([other.end(), mine.end()]);
  }
});
