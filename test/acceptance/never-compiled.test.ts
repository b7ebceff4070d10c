// PostgreSQL compiles a statement of which it expects much, and where tables were never analyzed it expects too much.
// One engine: only PostgreSQL has this.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { startApp } from '../support/app.ts';
import { engine } from '../support/engine.ts';

test('no statement is compiled, whatever the planner expects of it', { skip: engine === 'pglite' && 'it has no compiler' }, async (t) => {
  const { context } = await startApp(t);
  const plan = await context.database.db.transaction().execute(async (transaction) => {
    await sql`set local jit_above_cost = 0`.execute(transaction);
    return (await sql`explain (analyze, format json) select sum(last_seq) from sessions`.execute(transaction)).rows;
  });
  assert.match(JSON.stringify(plan), /"Execution Time"/);
  assert.doesNotMatch(JSON.stringify(plan), /"JIT"/);
});
