import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { sql } from 'kysely';
import { readUsage, type UsageQuery, usageDimensions } from '../../../src/accounts/usage.ts';
import type { Database } from '../../../src/database/database.ts';
import { openTestDatabase } from '../../support/engine.ts';

/** An organization whose agents, of which every other is deleted, are as many as scripts make in years. */
const orgId = 7;
let database: Database;
before(async () => {
  database = await openTestDatabase();
  const { db } = database;
  await sql`insert into organizations (id, slug, name) overriding system value values (${orgId}, 'many', '')`.execute(db);
  await sql`insert into agents (id, org_id, slug, name, deleted_at) overriding system value
    select n, ${orgId}, 'agent-' || n / 2, '', case when n % 2 = 0 then now() end from generate_series(2, 4001) n`.execute(db);
  await sql`insert into usage_daily (org_id, day, agent_id, model, end_user_id, turns)
    select ${orgId}, date '2025-01-01' + n, n, 'offline/demo', '', 1 from generate_series(2, 4001) n`.execute(db);
  await sql`analyze agents, usage_daily`.execute(db);
});
after(() => database.close());

/** What the query answers, and how many rows and index entries of agents it read. */
async function read(given: Partial<UsageQuery>) {
  const all = { groupBy: usageDimensions, from: undefined, to: undefined, agent: undefined, model: undefined, endUserId: undefined };
  return database.db.transaction().execute(async (transaction) => {
    const count = async () => {
      const { rows } = await sql<{ count: string }>`
        select sum(pg_stat_get_xact_tuples_returned(oid) + pg_stat_get_xact_tuples_fetched(oid)) as count
        from pg_class where relname like 'agents%'`.execute(transaction);
      return Number(rows[0]?.count);
    };
    const before = await count();
    const rows = await readUsage(transaction, orgId, { ...all, limit: 100, after: undefined, ...given });
    return { rows: rows.map(({ agent, agentId, turns }) => [agent, agentId, turns]), agentsRead: (await count()) - before };
  });
}

test('a page of usage names its agents, deleted ones too, without reading the others', async () => {
  const { rows, agentsRead } = await read({ limit: 4 });
  assert.deepEqual(rows, [
    ['agent-1', 2, 1],
    ['agent-1', 3, 1],
    ['agent-2', 4, 1],
    ['agent-2', 5, 1],
  ]);
  assert.ok(agentsRead < 50, `${agentsRead} were read`);
  assert.deepEqual((await read({ groupBy: [] })).rows, [[undefined, undefined, 4_000]]);
});

test('the usage of a slug is that of all agents that had it, found without reading the others', async () => {
  const { rows, agentsRead } = await read({ agent: 'agent-2' });
  assert.deepEqual(rows, [
    ['agent-2', 4, 1],
    ['agent-2', 5, 1],
  ]);
  assert.ok(agentsRead < 50, `${agentsRead} were read`);
});
