// `parley backup` and `parley restore`: what was there is there again, to the last log entry, and goes on from there.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { PGlite } from '@electric-sql/pglite';
import pg from 'pg';
import { startApp, type TestApp } from '../support/app.ts';
import { createDatabase, engine, type TestDatabase } from '../support/engine.ts';
import { findPostgres } from '../support/programs.ts';

const main = join(import.meta.dirname, '../../src/cli/main.ts');
const managed = '/demo/assistant/v1/managed-agents/sessions';

test('a backup brings sessions, log, approvals, budget, secrets and the audit chain back into an empty place', async (t) => {
  const { database, folder, target } = await places(t);
  const app = await startApp(t, { database });
  await app.request('POST', '/v1/sessions', { session_id: 'kept', metadata: { end_user_id: 'ann' } });
  await app.request('POST', '/v1/sessions/kept/messages', { text: '/think aloud\n/say remember me' });
  await app.request('POST', '/v1/sessions', { session_id: 'asked' });
  await app.request('POST', '/v1/sessions/asked/messages', { text: '/tool bash {"command":"echo after the restore"}' });
  await app.request('PUT', '/api/model_credentials/openai', { api_key: 'sk-a-key-that-must-open-again' });
  await app.request('PUT', '/api/budget', { total_tokens_cap: 100_000 });
  for (const name of ['first', 'second']) await app.request('POST', '/api/api_keys', { name, scopes: ['agents:read'] });
  const before = await everything(app);
  // PostgreSQL is dumped while it serves; the embedded database is one process's own.
  if (engine === 'pglite') {
    const refused = await run(database.settings, ['backup', folder]);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /is in use by process \d+; stop it/);
    await app.close();
  }
  const made = await run(database.settings, ['backup', folder]);
  assert.equal(made.code, 0, made.stderr);
  if (engine === 'postgres') await app.request('POST', '/v1/sessions/kept/messages', { text: '/say not in the backup' });
  const back = await run(target.settings, ['restore', folder]);
  assert.equal(back.code, 0, back.stderr);

  const restored = await startApp(t, { database: target });
  assert.deepEqual(await everything(restored), before);
  const verification = (await restored.request('GET', '/api/audit_events/verification')).body;
  assert.deepEqual([verification.valid, verification.checked > 4], [true, true]);
  const orgId = (await restored.context.directory.organizationBySlug('demo'))?.id ?? 0;
  assert.equal(await restored.context.credentialFor(orgId, 'openai'), 'sk-a-key-that-must-open-again');

  const { request_id: requestId } = before.asked.pending_input;
  const resolved = await restored.request('PUT', `/v1/sessions/asked/inputs/${requestId}`, { decision: 'approve_once' });
  assert.match(resolved.text, /bash answered: after the restore/);
  const said = await restored.request('POST', '/v1/sessions/kept/messages', { text: '/say again' });
  assert.equal(said.body.text, 'again');
  const { events }: { events: { seq: number }[] } = (await restored.request('GET', `${managed}/kept`)).body;
  assert.deepEqual(
    events.map((event) => event.seq),
    events.map((_event, index) => index + 1),
  );
  await restored.close();
  await app.close();
});

test('a place that is not empty is left as it is, and a folder without a backup is named', async (t) => {
  const { database, folder, target } = await places(t);
  const app = await startApp(t, { database });
  await app.request('POST', '/v1/sessions', { session_id: 'mine' });
  await app.close();
  const missing = await run(target.settings, ['restore', join(folder, 'nowhere')]);
  assert.equal(missing.code, 1);
  assert.match(missing.stderr, /nowhere/);
  const made = await run(database.settings, ['backup', folder]);
  assert.equal(made.code, 0, made.stderr);
  const refused = await run(database.settings, ['restore', folder]);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /^parley: .* empty .*\n$/);
  const again = await startApp(t, { database });
  assert.equal((await again.request('GET', '/v1/sessions/mine')).status, 200);
  await again.close();
});

test('a restore into a schema where its role does not look says so: a start would begin with nothing', {
  skip: engine !== 'postgres',
}, async (t) => {
  const { database, folder, target } = await places(t);
  const url = new URL(database.settings.DATABASE_URL ?? '');
  const client = new pg.Client({ connectionString: url.href });
  await client.connect();
  await client.query('alter schema public rename to elsewhere');
  await client.end();
  url.searchParams.set('options', '-csearch_path=elsewhere');
  assert.equal((await run({ ...database.settings, DATABASE_URL: url.href }, ['backup', folder])).code, 0);
  const { code, stderr } = await run(target.settings, ['restore', folder]);
  assert.equal(
    stderr,
    'parley: DATABASE_URL: restored into the schema elsewhere. Before the start: ALTER ROLE parley SET search_path = elsewhere\n',
  );
  assert.equal(code, 1);
});

test('a backup that fails leaves no folder, which would look like one', async (t) => {
  const { database, folder, target } = await places(t);
  const nothingThere = await run(target.settings, ['backup', folder]);
  assert.equal(nothingThere.code, 1);
  assert.match(nothingThere.stderr, /as the server has it\n$/);
  assert.equal(existsSync(folder), false);
  const app = await startApp(t, { database });
  // The one cannot be had while the server runs, the other not without its program.
  const failed = await run({ ...database.settings, PATH: '' }, ['backup', folder]);
  assert.equal(failed.code, 1);
  assert.match(failed.stderr, engine === 'pglite' ? /is in use by process/ : /pg_dump is not installed/);
  assert.equal(existsSync(folder), false);
  await app.close();
});

test('a damaged backup is one line and changes nothing: an intact one, whatever its key, can be restored after it', async (t) => {
  const { database, folder, target } = await places(t);
  await (await startApp(t, { database })).close();
  const made = await run(database.settings, ['backup', folder]);
  assert.equal(made.code, 0, made.stderr);
  const file = join(folder, engine === 'pglite' ? 'database.tar.gz' : 'database.dump');
  const whole = readFileSync(file);
  writeFileSync(file, whole.subarray(0, whole.length / 2));
  writeFileSync(join(folder, 'secret.key'), Buffer.alloc(32, 1).toString('base64'));
  const refused = await run(target.settings, ['restore', folder]);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, engine === 'pglite' ? /^parley: .* is damaged .*\n$/ : /parley: pg_restore failed; nothing was changed\n$/);
  writeFileSync(file, whole);
  // Of another backup, which has another key.
  writeFileSync(join(folder, 'secret.key'), Buffer.alloc(32, 2).toString('base64'));
  const back = await run(target.settings, ['restore', folder]);
  assert.equal(back.code, 0, back.stderr);
});

test('a backup is not made with another secret key than that of the database, nor does a restore replace one', async (t) => {
  const { database, folder, target } = await places(t);
  const { PARLEY_DATA_DIR: directory = '' } = target.settings;
  await (await startApp(t, { database, settings: { PARLEY_SECRET_KEY: 'a'.repeat(64) } })).close();
  const wrong = await run({ ...database.settings, PARLEY_SECRET_KEY: 'b'.repeat(64) }, ['backup', folder]);
  assert.match(wrong.stderr, /^parley: PARLEY_SECRET_KEY: this database was encrypted with the key \w+, but the key given is \w+\./);
  assert.deepEqual([wrong.code, existsSync(folder)], [1, false]);
  const made = await run({ ...database.settings, PARLEY_SECRET_KEY: 'a'.repeat(64) }, ['backup', folder]);
  assert.equal(made.code, 0, made.stderr);
  mkdirSync(directory);
  const key = `${Buffer.alloc(32, 1).toString('base64')}\n`;
  writeFileSync(join(directory, 'secret.key'), key);
  const refused = await run(target.settings, ['restore', folder]);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /secret\.key: is another key than that of the backup/);
  assert.equal(readFileSync(join(directory, 'secret.key'), 'utf8'), key);
  const other = await run({ ...target.settings, PARLEY_SECRET_KEY: 'b'.repeat(64) }, ['restore', folder]);
  assert.match(other.stderr, /PARLEY_SECRET_KEY: is another key than that of the backup/);
  const same = await run({ ...target.settings, PARLEY_SECRET_KEY: 'a'.repeat(64) }, ['restore', folder]);
  assert.equal(same.code, 0, same.stderr);
  assert.equal(readFileSync(join(directory, 'secret.key'), 'utf8'), key);
  // Its files may be open to all, where the directory around them was made by someone else.
  if (engine === 'pglite') assert.equal(statSync(join(directory, 'db')).mode & 0o777, 0o700);
});

const embedded = engine === 'pglite' ? false : 'PostgreSQL has programs of its own for this';

test('a backup and a restore of a large database take no more memory than those of a small one', { skip: embedded }, async (t) => {
  const { database, folder, target } = await places(t);
  const mostMiB = async (settings: Record<string, string>, args: string[]) => {
    const told = `data:text/javascript,process.on('exit',()=>console.error(process.resourceUsage().maxRSS))`;
    const { code, stderr } = await run({ ...settings, NODE_OPTIONS: `--import=${told}` }, args);
    assert.equal(code, 0, stderr);
    // The engine's thread says so too.
    return Math.max(...stderr.trim().split('\n').map(Number)) / 1024;
  };
  const file = join(database.settings.PARLEY_DATA_DIR, 'db/base/large');
  writeFileSync(file, '');
  truncateSync(file, 2 ** 28);
  const most = [await mostMiB(database.settings, ['backup', folder]), await mostMiB(target.settings, ['restore', folder])];
  for (const mebibytes of most) assert.ok(mebibytes < 500, `${most} MiB; without the 256 of the file it is 210`);
  assert.equal(statSync(join(target.settings.PARLEY_DATA_DIR, 'db/base/large')).size, 2 ** 28);
});

test('a backup that an earlier version made is restored', { skip: embedded }, async (t) => {
  const { database, folder, target } = await places(t);
  const app = await startApp(t, { database });
  await app.request('POST', '/v1/sessions', { session_id: 'mine' });
  await app.close();
  const pglite = await PGlite.create({ dataDir: join(database.settings.PARLEY_DATA_DIR, 'db') });
  const dump = await pglite.dumpDataDir('gzip');
  await pglite.close();
  mkdirSync(folder);
  writeFileSync(join(folder, 'database.tar.gz'), Buffer.from(await dump.arrayBuffer()));
  writeFileSync(join(folder, 'secret.key'), readFileSync(join(database.settings.PARLEY_DATA_DIR, 'secret.key')));
  const back = await run(target.settings, ['restore', folder]);
  assert.equal(back.code, 0, back.stderr);
  const restored = await startApp(t, { database: target });
  assert.equal((await restored.request('GET', '/v1/sessions/mine')).status, 200);
  await restored.close();
});

/** What a person would compare: as the API shows it. */
async function everything(app: TestApp) {
  const read = async (path: string) => (await app.request('GET', path)).body;
  const [kept, asked, log, askedLog, keys, budget, usage, releases, transcript] = await Promise.all([
    read('/v1/sessions/kept'),
    read('/v1/sessions/asked'),
    read(`${managed}/kept`),
    read(`${managed}/asked`),
    read('/api/api_keys?limit=100'),
    read('/api/budget'),
    read('/api/usage'),
    read('/api/agents/assistant/releases'),
    read('/demo/assistant/v1/sessions/kept/messages'),
  ]);
  for (const key of keys.data) key.last_used_at = null;
  const audit = await app.context.database.db.selectFrom('audit_events').select(['id', 'action', 'hash']).orderBy('id').execute();
  return { kept, asked, log, askedLog, keys, budget, usage, releases, transcript, audit };
}

async function places(t: TestContext): Promise<{ database: TestDatabase; folder: string; target: TestDatabase }> {
  const database = await createDatabase();
  const parent = mkdtempSync(join(tmpdir(), 'parley-backup-'));
  const settings = { PARLEY_DATA_DIR: join(parent, 'data') };
  const folder = join(parent, 'backup');
  const { DATABASE_URL: url } = database.settings;
  const remove = async () => {
    await database.remove();
    rmSync(parent, { recursive: true });
  };
  if (url === undefined) {
    t.after(remove);
    return { database, folder, target: { settings, remove: async () => {} } };
  }
  const empty = new URL(url);
  empty.pathname = `${empty.pathname}_restored`;
  const onServer = async (statement: string) => {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query(statement);
    await client.end();
  };
  await onServer(`create database ${empty.pathname.slice(1)}`);
  t.after(async () => {
    await onServer(`drop database ${empty.pathname.slice(1)} with (force)`);
    await remove();
  });
  return { database, folder, target: { settings: { ...settings, DATABASE_URL: empty.href }, remove: async () => {} } };
}

async function run(settings: Record<string, string>, args: string[]): Promise<{ code: number | null; stderr: string }> {
  // Debian keeps the programs of PostgreSQL off the PATH.
  const path = engine === 'postgres' ? `${process.env.PATH}${delimiter}${findPostgres()}` : process.env.PATH;
  // The embedded engine as `engine.ts` has it.
  const child = spawn(process.execPath, ['--liftoff-only', main, ...args], {
    cwd: tmpdir(),
    env: { PATH: path, NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE, ...settings },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  return { code, stderr };
}
