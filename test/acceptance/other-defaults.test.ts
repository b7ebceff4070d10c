// A PostgreSQL that somebody set up for their own purposes.
// One engine: only PostgreSQL has this.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import pg from 'pg';
import { startApp } from '../support/app.ts';
import { createDatabase, engine } from '../support/engine.ts';

test('dates and transactions are as expected, whatever the database has for a default', {
  skip: engine === 'pglite' && 'it is set up by nobody else',
}, async (t) => {
  const database = await createDatabase();
  const client = new pg.Client({ connectionString: database.settings.DATABASE_URL });
  await client.connect();
  const { rows } = await client.query('select current_database() as name');
  await client.query(`alter database "${rows[0].name}" set datestyle = 'German'`);
  await client.query(`alter database "${rows[0].name}" set default_transaction_isolation = 'serializable'`);
  await client.query(`alter database "${rows[0].name}" set timezone = 'America/New_York'`);
  await client.end();
  const app = await startApp(t, { database });
  t.after(() => app.close().then(database.remove));
  const { status, body } = await app.request('POST', '/v1/sessions', { session_id: 'dated' });
  assert.equal(status, 200);
  assert.ok(Math.abs(Date.parse(body.created_at) - Date.now()) < 60_000, body.created_at);
  const agents = await app.request('GET', '/api/agents');
  assert.match(agents.body.data[0].created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00$/);
  const isolation = await app.context.database.db
    .transaction()
    .execute((transaction) => sql<{ level: string }>`select current_setting('transaction_isolation') as level`.execute(transaction));
  assert.deepEqual(isolation.rows, [{ level: 'read committed' }]);
});
