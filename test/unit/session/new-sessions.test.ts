// Sessions that are asked for at the same moment are written by one statement; each caller is told of its own.
// On PGlite: it executes statements in the order in which they are sent.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import { newId } from '../../../src/ids.ts';
import { dropLeftovers } from '../../../src/session/drop-sessions.ts';
import { Feed } from '../../../src/session/feed.ts';
import { NewSessions } from '../../../src/session/new-sessions.ts';
import type { NewSession } from '../../../src/session/sessions.ts';
import { startApp } from '../../support/app.ts';

const app = await startApp({ after });
const { database } = app.context;
const { db } = database;
const agent = await db.selectFrom('agents').select(['id', 'org_id']).executeTakeFirstOrThrow();

const session = (id: string, given: Partial<NewSession> = {}): NewSession => ({
  id,
  orgId: agent.org_id,
  agentId: agent.id,
  releaseVersion: 1,
  surface: 'native',
  metadata: {},
  endUserId: undefined,
  isVisitor: false,
  instanceKey: id,
  permissionMode: null,
  currentAgent: 'main',
  stored: true,
  ...given,
});

const countOf = async () =>
  (await db.selectFrom('agents').select('session_count').where('id', '=', agent.id).executeTakeFirstOrThrow()).session_count;

test('of two hundred sessions at once each is written, counted and reported once, in a few statements', async () => {
  const hook = { url: 'https://example.com/hook', event_types: ['session.started'], name: 'new' };
  assert.equal((await app.request('POST', '/api/webhook_endpoints', hook)).status, 201);
  const statements: number[] = [];
  const counting = {
    ...database,
    async prepared<Row>(...call: Parameters<typeof database.prepared>): Promise<Row[]> {
      const rows = await database.prepared<Row>(...call);
      statements.push(rows.length);
      return rows;
    },
  };
  const newSessions = new NewSessions(counting);
  const before = await countOf();
  const ids = Array.from({ length: 200 }, () => newId('ses_'));
  const made = await Promise.all(
    ids.map((id, index) => newSessions.insert(session(id, { endUserId: `user ${index}`, metadata: { index } }))),
  );
  made.forEach((one, index) => {
    assert.deepEqual([one?.id, one?.endUserId, one?.metadata], [ids[index], `user ${index}`, { index }]);
    assert.ok(one?.createdAt instanceof Date);
  });
  assert.equal(await countOf(), before + 200);
  assert.deepEqual(statements, [64, 64, 64, 8]);
  const told = await db.selectFrom('webhook_events').select('data').where('type', '=', 'session.started').execute();
  const reported = told.map(({ data }) => JSON.stringify(data)).toSorted();
  const expected = ids.map((id, index) => JSON.stringify({ session_id: id, agent: 'assistant', end_user_id: `user ${index}` })).toSorted();
  assert.deepEqual(reported, expected);
});

test('an id is given to the first who wants it, of another organization too, and counted and reported once', async () => {
  const newSessions = new NewSessions(database);
  const id = newId('ses_');
  const before = await countOf();
  const made = await Promise.all([
    newSessions.insert(session(id, { metadata: { who: 'first' } })),
    newSessions.insert(session(id, { metadata: { who: 'second' } })),
    newSessions.insert(session(id, { orgId: agent.org_id + 1, metadata: { who: 'stranger' } })),
  ]);
  assert.deepEqual(
    made.map((one) => one?.metadata),
    [{ who: 'first' }, undefined, undefined],
  );
  assert.equal(await newSessions.insert(session(id)), undefined);
  assert.equal(await countOf(), before + 1);
  const told = await sql`select 1 from webhook_events where type = 'session.started' and data ->> 'session_id' = ${id}`.execute(db);
  assert.equal(told.rows.length, 1);
});

test('a session that cannot be stored fails alone', async () => {
  const newSessions = new NewSessions(database);
  const ids = [newId('ses_'), newId('ses_'), newId('ses_')];
  const made = await Promise.allSettled(
    ids.map((id, index) => newSessions.insert(session(id, { releaseVersion: index === 1 ? 2 ** 40 : 1 }))),
  );
  assert.deepEqual(
    made.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  );
});

test('sessions that lose a conflict with another process together are written one by one', async () => {
  const conflict = Object.assign(new Error('deadlock detected'), { code: '40P01' });
  const losing = {
    ...database,
    async prepared<Row>(...call: Parameters<typeof database.prepared>): Promise<Row[]> {
      if (JSON.parse(String(call[1][0])).length > 1) throw conflict;
      return database.prepared<Row>(...call);
    },
  };
  const newSessions = new NewSessions(losing);
  const ids = [newId('ses_'), newId('ses_')];
  const made = await Promise.all(ids.map((id) => newSessions.insert(session(id))));
  assert.deepEqual(
    made.map((one) => one?.id),
    ids,
  );
});

test('of the sessions that nobody wanted kept, those that rest are dropped after a while', async () => {
  const newSessions = new NewSessions(database);
  const ago = new Date(Date.now() - 120_000);
  const ids = { kept: newId('ses_'), unstored: newId('ses_'), paused: newId('ses_'), young: newId('ses_') };
  for (const [name, id] of Object.entries(ids)) await newSessions.insert(session(id, { stored: name === 'kept' }));
  const notYoung = [ids.kept, ids.unstored, ids.paused];
  await db.updateTable('sessions').set({ updated_at: ago }).where('id', 'in', notYoung).execute();
  await db.updateTable('sessions').set({ active_turn_id: 'turn_1' }).where('id', '=', ids.paused).execute();
  await dropLeftovers(db, new Feed());
  const left = await db.selectFrom('sessions').select('id').where('id', 'in', Object.values(ids)).orderBy('id').execute();
  assert.deepEqual(left.map(({ id }) => id).sort(), [ids.kept, ids.paused, ids.young].sort());
});

test('a session that was not to be stored is kept if a turn has begun and ended in it since it was listed', async (t) => {
  const newSessions = new NewSessions(database);
  const ids = [newId('ses_'), newId('ses_')];
  for (const id of ids) await newSessions.insert(session(id, { stored: false }));
  await db
    .updateTable('sessions')
    .set({ updated_at: new Date(Date.now() - 120_000) })
    .where('id', 'in', ids)
    .execute();
  const feed = new Feed();
  const dropped: string[] = [];
  t.mock.method(feed, 'drop', (id: string) => {
    dropped.push(id);
    // The embedded engine carries out one statement after another: this one comes before the next session is dropped.
    void db.updateTable('sessions').set({ last_seq: 5 }).where('id', 'in', ids).execute();
  });
  await dropLeftovers(db, feed);
  assert.equal(dropped.length, 1);
  const left = await db.selectFrom('sessions').select('id').where('id', 'in', ids).execute();
  assert.deepEqual(
    left.map(({ id }) => id),
    ids.filter((id) => id !== dropped[0]),
  );
});
