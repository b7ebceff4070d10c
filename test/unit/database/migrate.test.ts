import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import { schemaText } from '../../../scripts/schema-text.ts';
import type { Database } from '../../../src/database/database.ts';
import { migrate } from '../../../src/database/migrate.ts';
import { createLogger } from '../../../src/telemetry/logger.ts';
import { openTestDatabase } from '../../support/engine.ts';

const database = await openTestDatabase();
after(() => database.close());

test('docs/schema.sql is what the migrations leave behind', async () => {
  const written = readFileSync(new URL('../../../docs/schema.sql', import.meta.url), 'utf8');
  assert.ok(written === (await schemaText(database.db)), 'docs/schema.sql is out of date: npm run generate');
});

test('a database that a newer version has changed is noticed, and left as it is', async () => {
  assert.deepEqual(await migrate(database), []);
  await sql`insert into migrations (name) values ('0024-reported-lines.sql')`.execute(database.db);
  assert.deepEqual(await migrate(database), [], 'one that had another number is known');
  await sql`insert into migrations (name) values ('9999-from-tomorrow.sql')`.execute(database.db);
  assert.deepEqual(await migrate(database), ['9999-from-tomorrow.sql']);
});

test('an upgrade says what it migrates; a start that has nothing to migrate is silent', async (t) => {
  const database = await openTestDatabase();
  t.after(() => database.close());
  const lines: { msg: string; migrations: string[] }[] = [];
  const logger = createLogger('warn', { write: (line) => lines.push(JSON.parse(line)) });
  await migrate(database, logger);
  assert.deepEqual(lines, []);
  const { rows } = await sql<{
    name: string;
  }>`delete from migrations where name = (select max(name) from migrations) returning name`.execute(database.db);
  await migrate(database, logger);
  assert.deepEqual(
    lines.map(({ msg, migrations }) => [msg, migrations]),
    [['migrating the database', rows.map(({ name }) => name)]],
  );
});

test('files from before the bytes of an organization were counted are counted by the migration', async (t) => {
  const database = await openTestDatabase();
  t.after(() => database.close());
  const { db } = database;
  for (const slug of ['one', 'two']) {
    await sql`with org as (insert into organizations (slug, name) values (${slug}, '') returning id)
      insert into budgets (org_id) select id from org`.execute(db);
  }
  await sql`insert into workspace_files (org_id, agent_id, instance_key, path, content, size)
    select id, 1, 'shared', path, '', 5 from organizations, unnest(array['a', 'b']) path where slug = 'one'`.execute(db);
  await sql`delete from migrations where name = '0038-file-bytes.sql'`.execute(db);
  await migrate(database);
  const { rows } = await sql<{ slug: string; bytes: number }>`
    select slug, file_bytes::integer as bytes from budgets join organizations on id = org_id where slug in ('one', 'two') order by slug`.execute(
    db,
  );
  assert.deepEqual(rows, [
    { slug: 'one', bytes: 10 },
    { slug: 'two', bytes: 0 },
  ]);
});

test('an event that was admitted under the former name of its key keeps its turn, and a customer’s key of that name its own', async (t) => {
  const database = await openTestDatabase();
  t.after(() => database.close());
  const { db } = database;
  await sql`insert into organizations (slug, name) values ('one', '')`.execute(db);
  await sql`insert into gateway_events (org_id, event_id, target, event) select id, event_id, 'submit', '{}'
    from organizations, unnest(array['ours', 'theirs']) event_id where slug = 'one'`.execute(db);
  await sql`insert into idempotency_keys (org_id, key, fingerprint, turn_id) select id, key, fingerprint, key from organizations,
    (values ('gateway ours', 'gateway ours'), ('gateway theirs', 'a hash')) kept (key, fingerprint) where slug = 'one'`.execute(db);
  await sql`delete from migrations where name = '0047-keys-of-gateway-events.sql'`.execute(db);
  await migrate(database);
  const { rows } = await sql`select key, fingerprint, turn_id from idempotency_keys order by key`.execute(db);
  assert.deepEqual(rows, [
    { key: 'gateway\nours', fingerprint: 'gateway\nours', turn_id: 'gateway ours' },
    { key: 'gateway theirs', fingerprint: 'a hash', turn_id: 'gateway theirs' },
  ]);
});

test('a start that waits while another process migrates says so', async () => {
  const lines: string[] = [];
  const logger = createLogger('warn', { write: (line) => lines.push(JSON.parse(line).msg) });
  const database = await openTestDatabase();
  const slow: Database = { ...database, exclusively: (work) => sleep(2_100).then(() => database.exclusively(work)) };
  await migrate(slow, logger);
  await database.close();
  assert.deepEqual(lines, ['waiting for another process to migrate the database']);
});
