// Connections to PostgreSQL that no longer answer, or are all in use: what keeps a process's turns its own does not wait for them.
// One engine: only PostgreSQL has this.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import pg from 'pg';
import { startApp, type TestApp } from '../support/app.ts';
import { startDatabaseProxy } from '../support/database-proxy.ts';
import { createDatabase, engine, type TestDatabase } from '../support/engine.ts';
import { until } from '../support/until.ts';

const skip = engine === 'postgres' ? false : 'the embedded database has one connection, which does not break';

test('a turn stays with its process while slow statements hold every connection of the pool', { skip }, async (t) => {
  const database = await createDatabase();
  const app = await startApp(t, { database, settings: { PARLEY_DATABASE_POOL: '1', PARLEY_LEASE_MS: '500', PARLEY_LOG_LEVEL: 'silent' } });
  t.after(() => app.close().then(database.remove));
  const turn = await beginTurn(app);
  const slow = sql`select pg_sleep(1.5)`.execute(app.context.database.db);
  assert.ok((await leastLeaseMs(database, 1_200)) > 0, 'another process would have taken it over');
  await slow;
  await turn.end();
});

test('connections that fall silent cost neither a lease nor what others say', { skip, timeout: 30_000 }, async (t) => {
  const database = await createDatabase();
  const proxy = await startDatabaseProxy(t, database);
  const app = await startApp(t, { database: proxy.database, settings: { PARLEY_LOG_LEVEL: 'silent' } });
  t.after(() => app.close().then(database.remove));
  const turn = await beginTurn(app);
  const heard = t.mock.method(app.context.directory, 'invalidate', () => {});
  // Enough idle ones that whatever comes next meets a silent one.
  await Promise.all(Array.from({ length: 8 }, () => app.context.database.ping()));
  proxy.silenceAll();
  assert.ok((await leastLeaseMs(database, 5_500)) > 0, 'another process would have taken it over');
  assert.ok(
    heard.mock.calls.some((call) => call.arguments[0] === 'all'),
    'it listens again, and looks for what it may have missed',
  );
  // What still waits on the silent ones is not what is looked at here.
  proxy.cutAll();
  await turn.end();
});

interface Begun {
  end(): Promise<void>;
}

async function beginTurn(app: TestApp): Promise<Begun> {
  await app.request('POST', '/v1/sessions', { session_id: 'held' });
  const answer = app.request('POST', '/v1/sessions/held/messages', { text: '/delay 60000\n/words 2' });
  await until(async () => app.context.runner.turnOf('held') !== undefined);
  return {
    async end() {
      const interrupt = () => app.context.turns.interrupt(1, 'held', 'interrupt');
      await until(() =>
        interrupt().then(
          () => true,
          () => false,
        ),
      );
      await answer;
    },
  };
}

/** The shortest that the lease was before it was renewed, as another process sees it. */
async function leastLeaseMs(database: TestDatabase, milliseconds: number): Promise<number> {
  const client = new pg.Client({ connectionString: database.settings.DATABASE_URL });
  await client.connect();
  try {
    let least = Number.POSITIVE_INFINITY;
    for (const end = Date.now() + milliseconds; Date.now() < end; await sleep(50)) {
      const { rows } = await client.query(`select extract(epoch from lease_until - now()) * 1000 as "left" from turns`);
      least = Math.min(least, Number(rows[0].left));
    }
    return least;
  } finally {
    await client.end();
  }
}
