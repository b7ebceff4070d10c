// Sessions that are to be dropped and cannot be: the others are, and the server starts.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import type { Db } from '../../../src/database/database.ts';
import { dropEmptied } from '../../../src/session/deleted-responses.ts';
import { dropEach, dropLeftovers } from '../../../src/session/drop-sessions.ts';
import { Feed } from '../../../src/session/feed.ts';
import { startApp } from '../../support/app.ts';
import { createDatabase } from '../../support/engine.ts';

/** Sessions that rest since an hour, in this order; those whose id begins with `bad` cannot be deleted. */
async function makeSessions(db: Db, ids: string[], given: { stored: boolean; surface: string }): Promise<void> {
  await sql`create or replace function refuse() returns trigger language plpgsql as $$ begin raise 'not this one'; end $$`.execute(db);
  await sql`create or replace trigger refuse before delete on sessions for each row when (old.id like 'bad%') execute function refuse()`.execute(
    db,
  );
  for (const id of ids)
    await sql`insert into sessions (id, org_id, agent_id, release_version, surface, metadata, instance_key, current_agent, stored, updated_at)
      select ${id}, org_id, id, 1, ${given.surface}, '{}', ${id}, 'main', ${given.stored}, now() - interval '1 hour' from agents`.execute(
      db,
    );
}

async function left(db: Db): Promise<string[]> {
  return (await db.selectFrom('sessions').select('id').orderBy('id').execute()).map(({ id }) => id);
}

test('a session that cannot be dropped keeps no other from being dropped, nor the server from starting', async (t) => {
  const database = await createDatabase();
  const app = await startApp(t, { database });
  const { db } = app.context.database;
  await makeSessions(db, ['bad', 'good', 'better'], { stored: false, surface: 'chat' });
  await assert.rejects(dropLeftovers(db, new Feed()), /^Error: 1 of 3 sessions could not be dropped$/);
  assert.deepEqual(await left(db), ['bad']);
  await makeSessions(db, ['bad response', 'good response'], { stored: true, surface: 'responses' });
  await sql`insert into deleted_responses (id, org_id, session_id, turn_id, while_running)
    select 'resp_' || id, org_id, id, 'turn_1', true from sessions where surface = 'responses'`.execute(db);
  await assert.rejects(dropEmptied(db, new Feed()), /^Error: 1 of 2 sessions could not be dropped$/);
  assert.deepEqual(await left(db), ['bad', 'bad response']);
  await app.close();
  const again = await startApp(t, { database, settings: { PARLEY_LOG_LEVEL: 'silent' } });
  t.after(() => database.remove());
  assert.deepEqual(await left(again.context.database.db), ['bad', 'bad response']);
});

test('a session goes with the last of its responses, and not before, in whichever order they are deleted', async (t) => {
  const app = await startApp(t);
  const { db } = app.context.database;
  const path = '/demo/assistant/v1/responses';
  for (const order of ['ABC', 'ACB', 'BAC', 'BCA', 'CAB', 'CBA']) {
    const ids = new Map<string, string>();
    for (const name of 'ABC') {
      const previous = [...ids.values()].at(-1);
      const body = { input: '/say hello', ...(previous === undefined ? {} : { previous_response_id: previous }) };
      ids.set(name, (await app.request('POST', path, body)).body.id);
    }
    const sessions: number[] = [];
    for (const name of order) {
      assert.equal((await app.request('DELETE', `${path}/${ids.get(name)}`)).status, 200);
      sessions.push((await left(db)).length);
    }
    assert.deepEqual(sessions, [1, 1, 0], order);
  }
});

test('when twenty sessions in a row cannot be dropped, the rest is left for the next time', async () => {
  const tried: string[] = [];
  const rows = Array.from({ length: 50 }, (_, number) => ({ id: String(number) }));
  const drop = async ({ id }: { id: string }) => {
    tried.push(id);
    if (id !== '5') throw new Error('The database is gone.');
    return true;
  };
  await assert.rejects(dropEach(rows, new Feed(), drop), { message: '25 of 50 sessions could not be dropped' });
  assert.equal(tried.at(-1), '25');
});
