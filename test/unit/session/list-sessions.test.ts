import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import type { Db } from '../../../src/database/database.ts';
import { listSessions } from '../../../src/session/list-sessions.ts';
import { startApp } from '../../support/app.ts';
import { until } from '../../support/until.ts';

const app = await startApp({ after });
const { db } = app.context.database;

/** How many rows of the table this connection has read so far. */
async function rowsFetched(transaction: Db): Promise<number> {
  const { rows } = await sql<{ count: number }>`select (seq_tup_read + idx_tup_fetch)::integer as count
    from pg_stat_xact_user_tables where relname = 'sessions'`.execute(transaction);
  return rows[0]?.count ?? 0;
}

test('the sessions before a page are skipped in the index: only those of the page are fetched from the table', async () => {
  await sql`insert into sessions (id, org_id, agent_id, release_version, surface, instance_key, current_agent, updated_at)
    select 'ses_' || lpad(n::text, 4, '0'), org_id, id, 1, 'native', n::text, 'main', now() - n * interval '1 second'
    from agents, generate_series(1, 5000) n`.execute(db);
  // An index tells what a row holds, but whether it is still there only after a vacuum, which waits for transactions under way.
  await until(async () => {
    await sql`vacuum analyze sessions`.execute(db);
    const { rows } = await sql`select from pg_class where relname = 'sessions' and relallvisible = relpages`.execute(db);
    return rows.length === 1;
  });
  const agent = await db.selectFrom('agents').select(['id', 'org_id']).executeTakeFirstOrThrow();
  for (const filter of [{ agentId: agent.id }, { agentId: agent.id, activeSince: new Date(0) }]) {
    const { sessions, fetched } = await db.transaction().execute(async (transaction) => {
      const before = await rowsFetched(transaction);
      const listed = await listSessions(transaction, agent.org_id, filter, 4_980, 20);
      return { sessions: listed, fetched: (await rowsFetched(transaction)) - before };
    });
    assert.deepEqual([sessions.length, sessions[0]?.id, sessions.at(-1)?.id], [20, 'ses_4981', 'ses_5000']);
    assert.equal(fetched, 20);
  }
});
