import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { completeReleaseConfig } from '../../../src/accounts/complete-release-config.ts';
import { Directory } from '../../../src/accounts/directory.ts';
import { Materializer } from '../../../src/accounts/materialize.ts';
import type { Upstreams } from '../../../src/accounts/pin-release.ts';
import type { Db } from '../../../src/database/database.ts';
import { createLogger } from '../../../src/telemetry/logger.ts';
import { openTestDatabase } from '../../support/engine.ts';
import { until } from '../../support/until.ts';

/** Adds an agent with so many pending releases, whose only MCP server is named for the organization. */
async function addReleases(db: Db, orgId: number, count: number): Promise<number> {
  const slug = `org${orgId}`;
  await sql`insert into organizations (id, slug, name) overriding system value values (${orgId}, ${slug}, '')`.execute(db);
  const agent = await db.insertInto('agents').values({ org_id: orgId, slug, name: slug }).returning('id').executeTakeFirstOrThrow();
  const config = JSON.stringify(completeReleaseConfig({ mcp_servers: [{ name: slug, url: 'https://mcp.example.com' }] }));
  await sql`insert into releases (org_id, agent_id, version, config, state, created_at)
    select ${orgId}, ${agent.id}, n, ${config}, 'pending', now() - interval '1 hour' + n * interval '1 second'
    from generate_series(1, ${count}::integer) n`.execute(db);
  return agent.id;
}

/** Servers that answer only when they are told to. */
function slowServers() {
  const asked: { organization: string; answer: () => void }[] = [];
  const upstreams: Upstreams = {
    checkUrl: async () => {},
    credentialFor: async () => undefined,
    hasOperatorsModelKey: () => false,
    listServerTools: ({ name }, _credential, signal) =>
      new Promise((answer, fail) => {
        asked.push({ organization: name, answer: () => answer([]) });
        signal.addEventListener('abort', () => fail(signal.reason));
      }),
  };
  return { asked, upstreams };
}

const states = (db: Db) =>
  sql<{ state: string; count: number }>`select state, count(*)::integer as count from releases group by state order by state`
    .execute(db)
    .then(({ rows }) => rows.map(({ state, count }) => `${count} ${state}`).join(', '));

test('few releases are materialized at once, fewer of an organization; the others wait, and organizations take turns', async (t) => {
  const database = await openTestDatabase();
  t.after(() => database.close());
  const { db } = database;
  const { asked, upstreams } = slowServers();
  const materializer = new Materializer(database, new Directory(database, 'proc_1'), upstreams, createLogger('silent'));
  t.after(() => materializer.close());
  const organizations = [11, 12, 13, 14, 15];
  for (const orgId of organizations) {
    const agentId = await addReleases(db, orgId, orgId === 11 ? 120 : 5);
    for (let version = 1; version <= 5; version += 1) materializer.materializeLater(orgId, agentId, version);
  }
  const asking = async (count: number) => until(async () => asked.length >= count);
  await asking(16);
  assert.equal(await states(db), '16 materializing, 124 pending');
  const heldBy = (organization: string) => asked.filter((server) => server.organization === organization).length;
  assert.deepEqual(
    organizations.map((orgId) => heldBy(`org${orgId}`)),
    [4, 4, 4, 4, 0],
  );
  asked.splice(0, 1)[0]?.answer();
  await asking(16);
  assert.equal(asked.at(-1)?.organization, 'org15', 'whose turn it is, before those with more and older ones');
  while (asked.length > 0) {
    for (const { answer } of asked.splice(0)) answer();
    await until(async () => asked.length > 0 || !(await states(db)).includes('ing'));
    assert.ok(asked.length <= 16 && heldBy('org11') <= 4);
  }
  await materializer.idle();
  assert.equal(await states(db), '140 materialized');
});

test('a process that is closed begins no other release, and the next one goes on', async (t) => {
  const database = await openTestDatabase();
  t.after(() => database.close());
  const { asked, upstreams } = slowServers();
  const newMaterializer = () => new Materializer(database, new Directory(database, 'proc_1'), upstreams, createLogger('silent'));
  await addReleases(database.db, 11, 6);
  const first = newMaterializer();
  first.start();
  await until(async () => asked.length === 4);
  await first.close();
  assert.equal(await states(database.db), '4 materializing, 2 pending');
  const next = newMaterializer();
  t.after(() => next.close());
  next.start();
  await until(async () => asked.length === 8);
});
