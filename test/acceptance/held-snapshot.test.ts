// Somebody else's transaction is open for long, as that of a backup is: PostgreSQL then keeps what has ended, in its indexes too.
// One engine: only PostgreSQL has this.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { loadConfig } from '../../src/config.ts';
import { migrate } from '../../src/database/migrate.ts';
import { openDatabase } from '../../src/database/open.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { type Owner, startApp, type TestApp } from '../support/app.ts';
import { createDatabase, engine } from '../support/engine.ts';
import { until } from '../support/until.ts';

const skip = engine === 'pglite' && 'it has one connection';

test('a migration that does not get its table lets others at it, and comes back', { skip }, async (t) => {
  const { settings, remove } = await createDatabase();
  const [database, other] = [await openDatabase(loadConfig(settings)), new pg.Client({ connectionString: settings.DATABASE_URL })];
  t.after(() => Promise.all([database.close(), other.end()]).then(remove));
  await other.connect();
  const names = async () => (await other.query('select name from migrations order by name')).rows.map(({ name }) => name);
  const all = await names();
  await other.query('delete from migrations where name = $1', [all.at(-1)]);
  await other.query('begin; lock table migrations in share mode');
  const said: unknown[] = [];
  const logger = createLogger('warn', { write: (line) => said.push(JSON.parse(line).msg) });
  const migrated = migrate(database, logger);
  await until(async () => said.includes('waiting for a table that others use, to migrate it'), 5_000, 'it gives up its place');
  const { rows } = await other.query(`select mode from pg_locks join pg_stat_activity using (pid)
    where relation = 'migrations'::regclass and not granted`);
  assert.deepEqual(rows, [], 'nobody would wait behind it');
  await other.query('commit');
  await migrated;
  assert.deepEqual(await names(), all);
});

test('no migration waits for a turn that waits for it', { skip }, async (t) => {
  const { settings, remove } = await createDatabase();
  const [database, turn] = [await openDatabase(loadConfig(settings)), new pg.Client({ connectionString: settings.DATABASE_URL })];
  t.after(() => Promise.all([database.close(), turn.end()]).then(remove));
  await turn.connect();
  const files = (await turn.query('select name from migrations order by name')).rows.map(({ name }) => name);
  // An empty database for which all but one of them are said to be applied, each time another one.
  await turn.query(`drop schema public cascade; create schema public;
    create table migrations (name text primary key, applied_at timestamptz default now())`);
  await turn.query('insert into migrations select unnest($1::text[])', [files]);
  const said: unknown[] = [];
  const logger = createLogger('warn', { write: (line) => said.push(JSON.parse(line).msg) });
  for (const file of files) {
    await turn.query('delete from migrations where name = $1', [file]);
    const { rows } = await turn.query("select from pg_tables where tablename = 'turns'");
    // Every turn locks its session first, and then writes it.
    await turn.query(`begin; ${rows.length > 0 ? 'lock table sessions in row share mode' : ''}`);
    let isDone = false;
    const migrated = migrate(database, logger).finally(() => {
      isDone = true;
    });
    const waits = 'select from pg_locks join pg_database d on d.oid = database where not granted and datname = current_database()';
    await until(async () => isDone || (await turn.query(waits)).rows.length > 0, 5_000, `${file} is done, or waits`);
    if (rows.length > 0)
      await turn.query('lock table sessions, turns, events, approvals, idempotency_keys, webhook_events in row exclusive mode');
    await turn.query('commit');
    await migrated;
  }
  assert.deepEqual(new Set(said), new Set(['migrating the database']));
});

test('the look for turns of silent processes does not read all that have ended', { skip }, async (t) => {
  const app = await startApp(t, { settings: { PARLEY_LEASE_MS: '500' } });
  // The first look, which is for all.
  await sleep(500);
  const mine = await besideOpenTransaction(t, app);
  await mine.query(`insert into turns (id, org_id, agent_id, session_id, state, input, process_id, lease_until)
    select 'turn_' || n, 1, 1, 'ses_' || n, 'ended', '{}', null, now() - interval '1 hour' from generate_series(1, 2000) n`);
  await mine.query(`begin;
    update turns set state = 'running';
    update turns set state = 'ended', lease_until = null;
    commit`);
  await sleep(1_500);
  const before = await entriesRead(mine, 'leased_turns');
  await sleep(3_000);
  // Twenty looks and more.
  const read = (await entriesRead(mine, 'leased_turns')) - before;
  assert.ok(read < 4_000, String(read));
});

test('the look for webhooks to send does not read all that were sent', { skip }, async (t) => {
  const app = await startApp(t);
  const mine = await besideOpenTransaction(t, app);
  await mine.query(`begin;
    insert into webhook_events (id, org_id, type, data, created_at)
      select gen_random_uuid(), 1, 'turn.completed', '{}', now() - interval '1 hour' from generate_series(1, 2000);
    insert into deliveries (id, org_id, lane, gateway_url, type, body, due_at, created_at)
      select id, 1, 'gateway x', 'x', type, '{}', created_at, created_at from webhook_events;
    update webhook_events set fanned_out = true;
    update deliveries set state = 'delivered', due_at = null;
    commit`);
  const bothRead = async () => (await entriesRead(mine, 'webhook_events_waiting')) + (await entriesRead(mine, 'deliveries_due'));
  await sleep(1_500);
  const before = await bothRead();
  for (let looks = 0; looks < 60; looks += 1) {
    app.context.courier.wake();
    await sleep(50);
  }
  // Once a second everything is looked through.
  const read = (await bothRead()) - before;
  assert.ok(read < 30_000, String(read));
});

/** A connection to the app's database, where another one has a transaction open. */
async function besideOpenTransaction(owner: Owner, { context }: TestApp): Promise<pg.Client> {
  const clients = [1, 2].map(() => new pg.Client({ connectionString: context.config.DATABASE_URL }));
  const [mine, other] = clients as [pg.Client, pg.Client];
  // The app drops its database, also while somebody is connected.
  await Promise.all(clients.map((client) => client.on('error', () => undefined).connect()));
  owner.after(async () => {
    await Promise.all(clients.map((client) => client.end()));
  });
  await other.query('begin isolation level repeatable read; select 1');
  return mine;
}

async function entriesRead(client: pg.Client, index: string): Promise<number> {
  const { rows } = await client.query('select idx_tup_read::integer as count from pg_stat_user_indexes where indexrelname = $1', [index]);
  return rows[0].count;
}
