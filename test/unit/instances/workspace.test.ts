import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setImmediate as nextPass } from 'node:timers/promises';
import { sql } from 'kysely';
import type { Database } from '../../../src/database/database.ts';
import { ServiceError } from '../../../src/errors.ts';
import { instanceKey } from '../../../src/instances/instance-key.ts';
import { stageUpload, Uploads, uploadPath } from '../../../src/instances/upload.ts';
import { dropFilesOfDeletedAgents, workspaceOf } from '../../../src/instances/workspace.ts';
import { openTestDatabase } from '../../support/engine.ts';

let database: Database;
before(async () => {
  database = await openTestDatabase();
});
after(() => database.close());

const instance = { orgId: 1, agentId: 2, instanceKey: 'shared' };
let sessions = 0;

async function createSession(key = 'shared'): Promise<string> {
  sessions += 1;
  const id = `ses_${sessions}`;
  await database.db
    .insertInto('sessions')
    .values({
      id,
      org_id: 1,
      agent_id: 2,
      release_version: 1,
      metadata: '{}',
      surface: 'managed',
      instance_key: key,
      current_agent: 'main',
    })
    .execute();
  return id;
}

async function stagedFiles(id: string): Promise<unknown> {
  const row = await database.db.selectFrom('sessions').select('staged_files').where('id', '=', id).executeTakeFirstOrThrow();
  return row.staged_files;
}

test('an upload is in the workspace of its instance, byte for byte, and staged for the next turn once', async () => {
  const session = await createSession();
  const bytes = Uint8Array.from({ length: 300 }, (_, index) => index % 256);
  assert.equal(await stageUpload(database.db, 1, session, { name: 'a.bin', content: Buffer.from('first') }), 'uploads/a.bin');
  assert.equal(await stageUpload(database.db, 1, session, { name: 'dir/a.bin', content: bytes }), 'uploads/a.bin');
  assert.equal(await stageUpload(database.db, 1, session, { name: 'b.txt', content: Buffer.from('b') }), 'uploads/b.txt');
  assert.deepEqual(await stagedFiles(session), ['uploads/a.bin', 'uploads/b.txt']);
  const workspace = workspaceOf(database.db, instance);
  assert.deepEqual(
    (await workspace.list()).map(({ path, size }) => [path, size]),
    [
      ['uploads/a.bin', 300],
      ['uploads/b.txt', 1],
    ],
  );
  assert.deepEqual(new Uint8Array((await workspace.read('uploads/a.bin')) ?? []), bytes);
  assert.equal(await workspace.read('uploads/none'), undefined);
});

test('another org, agent or instance sees nothing of an upload', async () => {
  const session = await createSession();
  await stageUpload(database.db, 1, session, { name: 'mine.txt', content: Buffer.from('mine') });
  for (const other of [
    { ...instance, orgId: 9 },
    { ...instance, agentId: 9 },
    { ...instance, instanceKey: 'end_user:eve' },
  ]) {
    assert.deepEqual(await workspaceOf(database.db, other).list(), []);
    assert.equal(await workspaceOf(database.db, other).read('uploads/mine.txt'), undefined);
  }
  assert.equal(await stageUpload(database.db, 9, session, { name: 'x.txt', content: Buffer.from('x') }), undefined);
  assert.deepEqual(await stagedFiles(session), ['uploads/mine.txt']);
});

test('an upload beyond a limit writes nothing', async () => {
  const session = await createSession('limits');
  const own = { ...instance, instanceKey: 'limits' };
  const stage = (name: string, content: Uint8Array) => stageUpload(database.db, 1, session, { name, content });
  const large = new Uint8Array(10 * 1024 * 1024 + 1);
  await assert.rejects(stage('large', large), isServiceError('too-large'));
  for (let index = 0; index < 6; index += 1) await stage(`${index}`, large.subarray(1));
  await assert.rejects(stage('full', large.subarray(1)), isServiceError('too-large'));
  assert.deepEqual(
    await stagedFiles(session),
    ['0', '1', '2', '3', '4', '5'].map((name) => `uploads/${name}`),
  );
  assert.equal((await workspaceOf(database.db, own).list()).length, 6);
  await stage('0', large.subarray(1));
  await sql`insert into workspace_files (org_id, agent_id, instance_key, path, content, size)
    select 1, 2, 'limits', 'many/' || number, '', 0 from generate_series(7, 1999) number`.execute(database.db);
  await stage('last', new Uint8Array());
  await stage('last', new Uint8Array(1));
  await assert.rejects(stage('one more', new Uint8Array()), isServiceError('too-large'));
});

test('uploads of several sessions at once stay within the limits of the workspace they share', async () => {
  const sharers = Array.from({ length: 8 }, () => createSession('crowded'));
  const row = { org_id: 1, agent_id: 2, instance_key: 'crowded', path: 'large', content: new Uint8Array(), size: 64 * 1024 * 1024 - 10 };
  await database.db.insertInto('workspace_files').values(row).execute();
  const content = new Uint8Array(10);
  const staged = await Promise.allSettled(
    (await Promise.all(sharers)).map((session) => stageUpload(database.db, 1, session, { name: session, content })),
  );
  assert.equal(staged.filter(({ status }) => status === 'fulfilled').length, 1);
  assert.equal((await workspaceOf(database.db, { ...instance, instanceKey: 'crowded' }).list()).length, 2);
});

test('uploads of an organization go one after the other, past those that are refused, and not on while the database fails', async (t) => {
  const session = await createSession('waiting');
  const uploads = new Uploads(database.db, undefined);
  const stage = (name: string) => uploads.stage(1, session, { name, content: new Uint8Array(1) });
  const transactions = t.mock.method(database.db, 'transaction');
  const first = stage('first');
  const others = [stage('..'), stage('third')];
  await nextPass();
  assert.equal(transactions.mock.callCount(), 1);
  assert.deepEqual(
    (await Promise.allSettled([first, ...others])).map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  );
  transactions.mock.resetCalls();
  transactions.mock.mockImplementation(() => {
    throw Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
  });
  const failed = await Promise.allSettled(['one', 'two', 'three'].map(stage));
  assert.deepEqual([failed.map(({ status }) => status), transactions.mock.callCount()], [Array(3).fill('rejected'), 1]);
  transactions.mock.restore();
  assert.equal(await stage('after'), 'uploads/after');
});

test('the files of deleted agents are deleted and no longer counted, those of others stay', async () => {
  const { db } = database;
  const orgId = 77;
  await sql`insert into organizations (id, slug, name) overriding system value values (${orgId}, 'leaving', '')`.execute(db);
  await sql`insert into budgets (org_id, file_bytes) values (${orgId}, 1250)`.execute(db);
  const addAgent = async (slug: string, isDeleted: boolean) => {
    const values = { org_id: orgId, slug, name: slug, deleted_at: isDeleted ? new Date() : null };
    return (await db.insertInto('agents').values(values).returning('id').executeTakeFirstOrThrow()).id;
  };
  const [gone, there] = [await addAgent('gone', true), await addAgent('there', false)];
  await sql`insert into workspace_files (org_id, agent_id, instance_key, path, content, size)
    select ${orgId}, agent, 'instance ' || number % 3, number, '', 5
    from generate_series(1, 125) number, unnest(array[${gone}::integer, ${there}::integer]) agent`.execute(db);
  await dropFilesOfDeletedAgents(db);
  const left =
    await sql`select agent_id, count(*)::integer as files from workspace_files where org_id = ${orgId} group by agent_id`.execute(db);
  assert.deepEqual(left.rows, [{ agent_id: there, files: 125 }]);
  assert.equal((await db.selectFrom('budgets').select('file_bytes').where('org_id', '=', orgId).executeTakeFirstOrThrow()).file_bytes, 625);
});

const kept: [name: string, path: string][] = [
  ['report.pdf', 'uploads/report.pdf'],
  ['../../etc/passwd', 'uploads/passwd'],
  ['/absolute/file', 'uploads/file'],
  ['C:\\Users\\me\\photo.png', 'uploads/photo.png'],
  ['..\\..\\x', 'uploads/x'],
  ['  spaced name.txt ', 'uploads/spaced name.txt'],
  ['.env', 'uploads/.env'],
  ['...a', 'uploads/...a'],
  ['%2e%2e%2fx', 'uploads/%2e%2e%2fx'],
  ['naïve ünïcode 文件.txt', 'uploads/naïve ünïcode 文件.txt'],
  ['e\u0301.txt', 'uploads/\u00e9.txt'],
  ['\u1112\u1161\u11ab'.repeat(85), `uploads/${'\ud55c'.repeat(85)}`],
  ['wait… what.txt', 'uploads/wait… what.txt'],
  ['a'.repeat(255), `uploads/${'a'.repeat(255)}`],
];
for (const [name, path] of kept) {
  test(`an upload named ${JSON.stringify(name.slice(0, 40))} is kept under its basename`, () => {
    assert.equal(uploadPath(name), path);
  });
}

const refused = [
  '',
  ' ',
  '.',
  '..',
  '...',
  '../..',
  'dir/',
  'dir/..',
  'dir\\',
  '/',
  '\\',
  'nul\0byte',
  'line\nbreak',
  'tab\t.txt',
  'escape\u001b[2J',
  'c1\u0085',
  'a'.repeat(256),
  'ü'.repeat(150),
  '\u2025',
  '\u2024\u2024',
  '\uff0e\uff0e',
  '\uff0e.',
  '\u2026',
  'a\u2215b',
  'a\u2044b',
  'a\uff0fb',
  'a\uff3cb',
  'a\u29f5b',
  'a\ufe68b',
  'rtl\u202egnp.exe',
  'zero\u200bwidth',
  'bom\ufeff.txt',
  'line\u2028separator',
  'half \ud800 pair',
];
for (const name of refused) {
  test(`an upload named ${JSON.stringify(name.slice(0, 20))} is refused`, () => {
    assert.throws(() => uploadPath(name), isServiceError('bad-request'));
  });
}

test('a name of megabytes is refused within a moment, whatever it consists of', () => {
  const begun = performance.now();
  for (const name of [`a${'\u0301\u0316'.repeat(1_000_000)}`, '/'.repeat(10_000_000)])
    assert.throws(() => uploadPath(name), isServiceError('bad-request'));
  const took = performance.now() - begun;
  assert(took < 1_000, `${took} ms`);
});

test('the instance boundary follows the scope, and an explicit instance wins', () => {
  const identity = { sessionId: 'ses_1', endUserId: 'ada' };
  assert.equal(instanceKey('session', identity), 'session:ses_1');
  assert.equal(instanceKey('end_user', identity), 'end_user:ada');
  assert.equal(instanceKey('shared', identity), 'shared');
  assert.equal(instanceKey('end_user', { ...identity, endUserId: undefined }), 'session:ses_1');
  for (const scope of ['session', 'end_user', 'shared'] as const) {
    assert.equal(instanceKey(scope, { ...identity, agentInstanceId: 'vera' }), 'instance:vera');
  }
  // No value of one kind can pass for another kind.
  assert.notEqual(instanceKey('end_user', { ...identity, endUserId: 'shared' }), instanceKey('shared', identity));
});

function isServiceError(kind: string) {
  return (error: unknown) => error instanceof ServiceError && error.kind === kind;
}
