// How what a tool changed comes into the workspace.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { sql } from 'kysely';
import type { Database } from '../../../src/database/database.ts';
import type { StorableChange } from '../../../src/harness/tool.ts';
import { dropFilesStoredAhead, workspaceOf } from '../../../src/instances/workspace.ts';
import type { ChangedFile } from '../../../src/session/operations.ts';
import { openTestDatabase } from '../../support/engine.ts';

let database: Database;
before(async () => {
  database = await openTestDatabase();
});
after(() => database.close());

const instance = { orgId: 1, agentId: 2 };

async function createSession(key: string): Promise<string> {
  const id = `ses_${key}`;
  const values = { id, org_id: 1, agent_id: 2, release_version: 1, metadata: '{}', surface: 'managed', instance_key: key } as const;
  await database.db
    .insertInto('sessions')
    .values({ ...values, current_agent: 'main' })
    .execute();
  return id;
}

/** As the operation of a turn does. False if the files do not fit. */
async function writeFiles(session: string, files: ChangedFile[], maxFileBytes?: number): Promise<boolean | undefined> {
  const operation = JSON.stringify({ kind: 'append', session, files, maxFileBytes });
  const { rows } = await sql<{
    fits: boolean;
  }>`select write_files(s, json_populate_record(null::turn_operation, ${operation}::json)) as fits
    from sessions s where id = ${session}`.execute(database.db);
  return rows[0]?.fits;
}

/** Of changes whose contents were stored ahead: what an operation says of them. */
function movesOf(changes: StorableChange[]): ChangedFile[] {
  return changes.map((change) => ('ahead' in change ? change : { path: change.path, content: null, size: 0 }));
}

test('what a command changed of many files is written in a moment', async () => {
  const session = await createSession('many');
  const write = async (changes: ChangedFile[]) => {
    const begun = performance.now();
    await writeFiles(session, changes);
    return performance.now() - begun;
  };
  const files = (content: string | null, count = 2_000) =>
    Array.from({ length: count }, (_, index) => ({ path: `${index}`, content, size: 3 }));
  // With the planner as it is where turns are written.
  await sql`set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off`.execute(database.db);
  const took = [await write(files('b25l')), await write(files('dHdv')), await write(files(null, 1_999))];
  assert.ok(Math.max(...took) < 3_000, `${took} ms`);
  const workspace = workspaceOf(database.db, { ...instance, instanceKey: 'many' });
  assert.deepEqual(
    (await workspace.list()).map(({ path }) => path),
    ['1999'],
  );
  assert.equal(Buffer.from((await workspace.read('1999')) ?? []).toString(), 'two');
});

test('large contents are stored ahead, seen by nobody and not counted, until an operation puts them in their place', async () => {
  const { db } = database;
  const session = await createSession('large');
  const workspace = workspaceOf(db, { ...instance, instanceKey: 'large' });
  const write = (files: ChangedFile[], maxFileBytes?: number) => writeFiles(session, files, maxFileBytes);
  const countAhead = async () => {
    const { rows } = await sql<{ count: number }>`
      select count(*)::integer as count from workspace_files where instance_key like 'ahead:%' and size = 0`.execute(db);
    return rows[0]?.count;
  };
  const small = [{ path: 'a', content: Buffer.from('small') }];
  assert.equal(await workspace.storeAhead(small), small);
  const fileOf = (path: string, fill: number) => ({ path, content: new Uint8Array(700_000).fill(fill) });
  const stored = await workspace.storeAhead([fileOf('a', 1), { path: 'gone', deleted: true }, fileOf('b', 2)]);
  assert.deepEqual(
    stored.map((change) => ('ahead' in change ? change.size : change)),
    [700_000, { path: 'gone', deleted: true }, 700_000],
  );
  assert.deepEqual([await workspace.list(), await countAhead()], [[], 2]);
  const files = movesOf(stored);
  await write([
    { path: 'a', content: 'b2xk', size: 3 },
    { path: 'gone', content: 'b2xk', size: 3 },
  ]);
  assert.equal(await write(files), true);
  assert.deepEqual(
    (await workspace.list()).map(({ path, size }) => [path, size]),
    [
      ['a', 700_000],
      ['b', 700_000],
    ],
  );
  assert.deepEqual(new Uint8Array((await workspace.read('b')) ?? []), fileOf('b', 2).content);
  await assert.rejects(write(files), /the content of a is not stored/);
  assert.equal((await workspace.read('a'))?.length, 700_000);

  await sql`insert into organizations (id, slug, name) overriding system value values (1, 'one', '')`.execute(db);
  await sql`insert into budgets (org_id, file_bytes) values (1, 1400000)`.execute(db);
  assert.equal(await write(movesOf(await workspace.storeAhead([fileOf('c', 3), fileOf('d', 4)])), 2_000_000), false);
  assert.equal(await countAhead(), 0);
  await workspace.storeAhead([fileOf('e', 5), fileOf('f', 6)]);
  await dropFilesStoredAhead(db);
  assert.equal(await countAhead(), 2, 'they may still be used');
  await sql`update workspace_files set updated_at = now() - interval '61 minutes' where instance_key like 'ahead:%'`.execute(db);
  await dropFilesStoredAhead(db);
  assert.deepEqual([await countAhead(), (await workspace.list()).length], [0, 2]);
});
