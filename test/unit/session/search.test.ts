// What the dashboard's list finds among many sessions: all of it, in order, looking through a bounded number at a time.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import { seedDemo } from '../../../scripts/seed-demo.ts';
import { migrate } from '../../../src/database/migrate.ts';
import { dropSession } from '../../../src/session/drop-sessions.ts';
import { findSessionRow, type SessionSearch, searchSessions, sessionsPerRelease } from '../../../src/session/search.ts';
import { startApp } from '../../support/app.ts';
import { engine } from '../../support/engine.ts';

const app = await startApp({ after });
const { db } = app.context.database;
await app.request('POST', '/api/agents', { slug: 'other', name: 'Other' });
const agents = await db.selectFrom('agents').select(['id', 'org_id']).orderBy('id').execute();
const [main = 0, other = 0] = agents.map(({ id }) => id);
const orgId = agents[0]?.org_id ?? 0;
await seedDemo(app.context.database, 'demo', { sessions: 300, turns: 1, longEvents: 0 });
// The second agent's sessions are all among the oldest; a few of both are rare.
await sql`update sessions set agent_id = ${other} where id > 'ses_demo_0000250'`.execute(db);
await sql`update sessions set surface = 'gateway', release_version = 7 where right(id, 2) = '90'`.execute(db);
// No session changes like this otherwise: they are counted again.
await sql`delete from migrations where name = '0045-stored-sessions-counted.sql'`.execute(db);
await migrate(app.context.database);

/** Every page, and how many there were. */
async function search(filter: Omit<SessionSearch, 'limit'>, limit: number): Promise<{ ids: string[]; pages: number }> {
  const ids: string[] = [];
  let after: SessionSearch['after'];
  for (let pages = 1; ; pages += 1) {
    const { sessions, horizon } = await searchSessions(db, orgId, {
      ...filter,
      limit: limit + 1,
      ...(after === undefined ? {} : { after }),
    });
    const page = sessions.slice(0, limit);
    ids.push(...page.map(({ id }) => id));
    const last = sessions.length > limit ? page.at(-1) : horizon;
    if (last === undefined) return { ids, pages };
    after = { updatedAt: last.position, id: last.id };
  }
}

test('whatever is looked for and however little is looked through at a time, everything that matches is found once and in order', async () => {
  const filters: Omit<SessionSearch, 'limit'>[] = [
    { surface: 'gateway' },
    { release: 7 },
    { surface: 'chat' },
    { surface: 'gateway', agentId: main },
    { release: 1, agentId: other },
    { surface: 'managed', state: 'stopped' },
    { release: 1, state: 'failed' },
    { surface: 'native', state: 'idle' },
    { state: 'idle' },
    { state: 'failed' },
    { state: 'failed', agentId: other },
    { surface: 'nothing' },
  ];
  for (const filter of filters) {
    const whole = await search(filter, 1_000);
    assert.equal(whole.pages, 1);
    assert.equal(whole.ids.length > 0, filter.surface !== 'nothing', JSON.stringify(filter));
    for (const maxScanned of [50, 299])
      for (const limit of [3, 50]) {
        const { ids } = await search({ ...filter, maxScanned }, limit);
        assert.deepEqual(ids, whole.ids, JSON.stringify({ ...filter, maxScanned, limit }));
      }
  }
});

test('what is rare and old is found at once by its surface and its release, however little may be scanned', async () => {
  for (const filter of [{ surface: 'gateway' }, { release: 7 }, { surface: 'gateway', release: 7 }]) {
    const { sessions, horizon } = await searchSessions(db, orgId, { ...filter, agentId: main, limit: 50, maxScanned: 1 });
    assert.deepEqual([sessions.map(({ id }) => id), horizon], [['ses_demo_0000090', 'ses_demo_0000190'], undefined]);
  }
});

test('what no index finds takes several looks, none of which goes further than it may', async () => {
  const stopped = { surface: 'gateway', agentId: main, state: 'stopped' as const, maxScanned: 4 };
  const { sessions, horizon } = await searchSessions(db, orgId, { ...stopped, limit: 50 });
  assert.deepEqual([sessions, horizon?.id], [[], 'ses_demo_0000091']);
  const { pages } = await search(stopped, 50);
  assert.equal(pages, 3);
});

test('what is common is found without looking further than its page needs', async () => {
  const { sessions, horizon } = await searchSessions(db, orgId, { state: 'idle', agentId: main, limit: 6, maxScanned: 250 });
  assert.deepEqual([sessions.length, horizon?.id], [6, 'ses_demo_0000010']);
});

test('a session has failed if its last turn did and nothing came after it, and is not idle then', async () => {
  const failed = [39, 79, 119, 159, 199, 239, 279].map((number) => `ses_demo_${String(number).padStart(7, '0')}`);
  assert.deepEqual((await search({ state: 'failed' }, 50)).ids, failed);
  const { ids: idle } = await search({ state: 'idle' }, 50);
  assert.equal(idle.length, 300 - Math.floor(300 / 23) - failed.length);
  assert.deepEqual(
    idle.filter((id) => failed.includes(id)),
    [],
  );
  const [newest = '', second = ''] = failed;
  await sql`update sessions set last_seq = last_seq + 1 where id = ${newest}`.execute(db);
  await sql`update sessions set status = 'stopped' where id = ${second}`.execute(db);
  assert.deepEqual((await search({ state: 'failed' }, 50)).ids, failed.slice(2));
  const states = await Promise.all([newest, second, failed[2] ?? ''].map((id) => findSessionRow(db, orgId, id)));
  assert.deepEqual(
    states.map((row) => row?.state),
    ['idle', 'stopped', 'failed'],
  );
});

test('whether sessions failed is looked up among a limited number of sessions at a time, whatever their state', async () => {
  const { sessions, horizon } = await searchSessions(db, orgId, { state: 'failed', agentId: main, limit: 50, maxScanned: 30 });
  assert.deepEqual([sessions, horizon?.id], [[], 'ses_demo_0000030']);
});

test('sessions of each release are counted as they are created and dropped', async () => {
  const pins = async () => {
    const counted = await sessionsPerRelease(db, orgId, main);
    return counted.map(({ version, sessions }) => [version, sessions]).sort();
  };
  assert.deepEqual(await pins(), [
    [1, 248],
    [7, 2],
  ]);
  const created = await Promise.all(Array.from({ length: 5 }, () => app.request('POST', '/v1/sessions', {})));
  assert.deepEqual(await pins(), [
    [1, 253],
    [7, 2],
  ]);
  for (const { body } of created) assert.ok(await dropSession(db, orgId, body.id));
  for (const id of ['ses_demo_0000090', 'ses_demo_0000190']) assert.ok(await dropSession(db, orgId, id));
  assert.deepEqual(await pins(), [[1, 248]]);
  const counted = await sql`select sum(sessions)::integer as all from session_counts`.execute(db);
  assert.deepEqual(counted.rows, [{ all: 298 }]);
});

test('a session that is dropped while the stored ones are counted for the first time is not counted', {
  skip: engine === 'pglite',
}, async () => {
  await sql`delete from session_counts`.execute(db);
  const { body } = await app.request('POST', '/v1/sessions', {});
  await sql`delete from session_counts`.execute(db);
  const count = await readFile('migrations/0045-stored-sessions-counted.sql', 'utf8');
  const [counted, isDropped] = [Promise.withResolvers<void>(), Promise.withResolvers<boolean>()];
  const counting = db.transaction().execute(async (transaction) => {
    await sql.raw(count).execute(transaction);
    counted.resolve();
    await Promise.race([isDropped.promise, sleep(300)]);
  });
  await counted.promise;
  isDropped.resolve(await dropSession(db, orgId, body.id));
  await counting;
  const { rows } = await sql`select sum(sessions)::integer as all from session_counts`.execute(db);
  const { rows: stored } = await sql`select count(*)::integer as all from sessions`.execute(db);
  assert.deepEqual(rows, stored);
});

test('a surface or a release that no session has is known without looking through any', async () => {
  for (const filter of [
    { surface: 'nothing' },
    { release: 99 },
    { release: 7, agentId: main },
    { surface: 'chat', release: 7 },
    { release: 99, state: 'stopped' as const },
  ]) {
    const { sessions, horizon } = await searchSessions(db, orgId, { ...filter, limit: 50, maxScanned: 50 });
    assert.deepEqual([sessions, horizon], [[], undefined], JSON.stringify(filter));
  }
});
