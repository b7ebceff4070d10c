import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { migrate } from '../../../src/database/migrate.ts';
import { openTestDatabase } from '../../support/engine.ts';

test('a database that a newer version has changed is noticed, and left as it is', async (t) => {
  const database = await openTestDatabase();
  t.after(() => database.close());
  assert.deepEqual(await migrate(database), []);
  await sql`insert into migrations (name) values ('9999-from-tomorrow.sql')`.execute(database.db);
  assert.deepEqual(await migrate(database), ['9999-from-tomorrow.sql']);
});
