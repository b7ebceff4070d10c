// How the program starts: the first start, the data directory and what it cannot start with.
import assert from 'node:assert/strict';
import { fork, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { locks } from '../../src/database/locks.ts';
import { createDatabase, engine } from '../support/engine.ts';
import { main, runToEnd, startServer } from '../support/server-process.ts';
import { startTransactionPooler } from '../support/transaction-pooler.ts';
import { until } from '../support/until.ts';

const directory = mkdtempSync(join(tmpdir(), 'parley-start-'));
after(() => rmSync(directory, { recursive: true }));
const ofAnyEngine = { skip: engine === 'pglite' && 'no engine changes it, and PostgreSQL starts in half the time' };

test('a host that is none of this machine is one line that names the setting', ofAnyEngine, async (t) => {
  const database = await createDatabase();
  t.after(database.remove);
  const host = await runToEnd({ ...database.settings, HOST: '203.0.113.7' });
  assert.equal(host.code, 2);
  assert.match(host.output, /^parley: HOST: cannot listen on 203\.0\.113\.7 \(.*EADDRNOTAVAIL.*\)\n$/);
});

test('a port in use is one clear line that names it', ofAnyEngine, async (t) => {
  const server = await startServer(t);
  const second = await createDatabase();
  t.after(second.remove);
  const keys = { PARLEY_API_KEY: '', PARLEY_OPERATOR_KEY: '' };
  const { code, output } = await runToEnd({ ...second.settings, ...keys, PORT: new URL(server.url).port });
  assert.equal(code, 1);
  assert.match(output, /^parley: PORT: \d+ is not available \(.*EADDRINUSE.*\)\n$/);
  // Nothing was made that is shown once: the next start is the first.
  assert.equal(existsSync(join(second.settings.PARLEY_DATA_DIR, 'credentials.json')), false);
});

test('a setting that does not exist, as a misspelt one, is named, and one without the other that it needs', ofAnyEngine, async (t) => {
  // Kubernetes sets the second for a service that is named parley.
  const unknown = { PARLEY_DATABSE_POOL: '5', PARLEY_SERVICE_HOST: '10.0.0.1' };
  const server = await startServer(t, { settings: { ...unknown, PARLEY_GATEWAY_PEERS: '{"https://hill.example.com":"key"}' } });
  assert.match(server.output(), /^Note: PARLEY_GATEWAY_PEERS is not used: .* Set PARLEY_GATEWAY=1 too\.$/m);
  assert.match(server.output(), /^Note: no such setting: PARLEY_DATABSE_POOL; npm start -- --help lists them\.$/m);
});

test('a Redis beside the embedded database is said to be of no use', { skip: engine !== 'pglite' }, async (t) => {
  const server = await startServer(t, { settings: { REDIS_URL: 'redis://127.0.0.1:1' } });
  assert.match(server.output(), /^Note: REDIS_URL is not used: .* Set DATABASE_URL too\.$/m);
});

test('a start waits for another that migrates, whatever its role may wait for', { skip: engine !== 'postgres' }, async (t) => {
  const database = await createDatabase();
  const { DATABASE_URL: url = '' } = database.settings;
  const other = new pg.Client({ connectionString: url });
  await other.connect();
  t.after(() => other.end().then(database.remove));
  await other.query(`select pg_advisory_lock(${locks.migration})`);
  const impatient = new URL(url);
  impatient.searchParams.set('options', '-c lock_timeout=100ms');
  const starting = startServer(t, { database, settings: { DATABASE_URL: impatient.href } });
  const waiting = `select 1 from pg_locks join pg_database d on d.oid = database and datname = current_database()
    where locktype = 'advisory' and now() - waitstart > interval '300ms'`;
  await Promise.race([until(async () => (await other.query(waiting)).rowCount === 1, 60_000), starting]);
  await other.query(`select pg_advisory_unlock(${locks.migration})`);
  assert.match((await starting).output(), /^Parley is ready/m);
});

test('a role whose idle connections are cut keeps those of the server', { skip: engine !== 'postgres' }, async (t) => {
  const database = await createDatabase();
  const url = new URL(database.settings.DATABASE_URL ?? '');
  const watcher = new pg.Client({ connectionString: url.href });
  await watcher.connect();
  t.after(() => watcher.end().then(database.remove));
  url.searchParams.set('options', '-c idle_session_timeout=200ms');
  await startServer(t, { database, settings: { DATABASE_URL: url.href } });
  const open = async (): Promise<number[]> => {
    const others = 'select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()';
    return (await watcher.query<{ pid: number }>(others)).rows.map(({ pid }) => pid);
  };
  const before = await open();
  assert.ok(before.length >= 2, 'one that listens, and others');
  await sleep(600);
  const after = await open();
  assert.deepEqual(
    before.filter((pid) => !after.includes(pid)),
    [],
  );
});

test('the first start shows its keys once, with a line to paste that works, and keeps them for the owner alone', async (t) => {
  const server = await startServer(t, { settings: { PARLEY_API_KEY: '', PARLEY_OPERATOR_KEY: '' } });
  const [, apiKey = ''] = server.output().match(/^API key \(shown once\): (svc_live_[A-Za-z0-9_-]{43})$/m) ?? [];
  const [, operatorKey = ''] = server.output().match(/^Operator key: +(svc_operator_[A-Za-z0-9_-]{16,})$/m) ?? [];
  const file = join(server.database.settings.PARLEY_DATA_DIR, 'credentials.json');
  assert.deepEqual(JSON.parse(readFileSync(file, 'utf8')), { api_key: apiKey, operator_key: operatorKey });
  assert.equal(statSync(file).mode & 0o777, 0o600);

  const curl = server.output().match(/^curl -s (\S+) -H "([^"]+)" -H "([^"]+)" -d '([^']+)'$/m);
  assert.ok(curl, server.output());
  const [, url = '', authorization = '', type = '', body = ''] = curl;
  const headers = Object.fromEntries([authorization, type].map((header) => header.split(': ')));
  const response = await fetch(url, { method: 'POST', headers, body });
  assert.equal(response.status, 200);
  assert.match(await response.text(), /Hello!/);

  assert.equal(await server.stop(), 0);
  const before = server.output().length;
  await server.start();
  const again = server.output().slice(before);
  assert.match(again, /^Parley is ready at /m);
  assert.doesNotMatch(again, /svc_live_|svc_operator_/);
  const organization = await fetch(`${server.url}/api/organization`, { headers: { authorization: `Bearer ${apiKey}` } });
  assert.equal(organization.status, 200);
});

test('a server that whoever forked it has let go of ends well', ofAnyEngine, async (t) => {
  const database = await createDatabase();
  t.after(() => database.remove());
  const env = { ...database.settings, PORT: '0', PARLEY_LOG_LEVEL: 'error' };
  const child = fork(main, { cwd: directory, env, silent: true });
  t.after(() => child.kill('SIGKILL'));
  if (child.stdout !== null) await once(child.stdout, 'data');
  child.disconnect();
  child.kill('SIGTERM');
  assert.deepEqual(await once(child, 'exit'), [0, null]);
});

test('after a kill -9 the same data is opened again', async (t) => {
  const server = await startServer(t);
  const headers = { authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json' };
  const created = await fetch(`${server.url}/v1/sessions`, { method: 'POST', headers, body: '{"session_id":"kept"}' });
  assert.equal(created.status, 200);
  await server.kill();
  await server.start();
  assert.equal((await fetch(`${server.url}/v1/sessions/kept`, { headers })).status, 200);
});

test('a key that is not the one of the database stops the start with a line that says where it comes from; no new one is made', async (t) => {
  const server = await startServer(t);
  await server.kill();
  const { PARLEY_DATA_DIR } = server.database.settings;
  const file = join(PARLEY_DATA_DIR, 'secret.key');
  rmSync(file);
  const lost = await runToEnd(server.database.settings);
  assert.equal(lost.code, 2);
  const absent =
    /^parley: PARLEY_SECRET_KEY: it is not set, and there is no (\S+), but this database was encrypted with the key \w{8}\. Set that key\n$/;
  assert.equal(absent.exec(lost.output)?.[1], file, lost.output);
  assert.ok(!existsSync(file));
  writeFileSync(file, randomBytes(32).toString('base64'));
  const { code, output } = await runToEnd(server.database.settings);
  assert.equal(code, 2);
  const keyIds = /encrypted with the key \w{8}, but the key in (.*) is \w{8}\. Set the one it was started with\n$/.exec(output);
  assert.equal(keyIds?.[1], file, output);
});

if (engine === 'pglite') {
  test('a second process on the same data directory is refused, and the first goes on', async (t) => {
    const server = await startServer(t);
    const { PARLEY_DATA_DIR } = server.database.settings;
    const { code, output } = await runToEnd({ PARLEY_DATA_DIR });
    assert.equal(code, 1);
    assert.equal(
      output,
      `parley: the data directory ${PARLEY_DATA_DIR} is in use by process ${server.pid}; stop it, or set PARLEY_DATA_DIR to another directory\n`,
    );
    assert.equal((await fetch(`${server.url}/readyz`)).status, 200);
    const seeding = spawn(process.execPath, [join(main, '../../scripts/seed-demo.ts'), '1', '1'], { env: { PARLEY_DATA_DIR } });
    const said = (await seeding.stderr.toArray()).join('');
    assert.match(said, /^seed-demo: the data directory .* is in use by process \d+; stop it, or .*\n$/, 'also when it is to be filled');
  });
} else {
  test('two processes share one PostgreSQL, and a key of one works on the other', async (t) => {
    const first = await startServer(t);
    const second = await startServer(t, { database: first.database });
    const headers = { authorization: `Bearer ${first.apiKey}` };
    assert.equal((await fetch(`${second.url}/api/organization`, { headers })).status, 200);
  });

  test('workers that cannot start end with the line of one and its exit code', async (t) => {
    const server = await startServer(t);
    const settings = { ...server.database.settings, PORT: new URL(server.url).port };
    const { code, output } = await runToEnd(settings, ['--workers', '2']);
    assert.equal(code, 1);
    assert.match(output, /^parley: PORT: \d+ is not available \(.*EADDRINUSE.*\)\n$/);
  });

  test('a role that may create nothing in the database is told in one line', async (t) => {
    const database = await createDatabase();
    const url = new URL(database.settings.DATABASE_URL ?? '');
    const client = new pg.Client({ connectionString: url.href });
    await client.connect();
    url.username = `weak_${process.pid}`;
    url.password = 'weak';
    await client.query(`create role ${url.username} login password 'weak'`);
    await client.query('drop table migrations');
    t.after(async () => {
      await client.query(`drop role ${url.username}`);
      await client.end();
      await database.remove();
    });
    const { code, output } = await runToEnd({ PARLEY_DATA_DIR: directory, DATABASE_URL: url.href });
    assert.equal(output, 'parley: DATABASE_URL: permission denied for schema public. Its role must own the database\n');
    assert.equal(code, 2);
  });

  test('a pooler that gives each transaction another connection is refused, and keeps no lock of ours', async (t) => {
    const database = await createDatabase();
    t.after(() => database.remove());
    const settings = { ...database.settings, DATABASE_URL: await startTransactionPooler(t, database.settings.DATABASE_URL ?? '') };
    const { code, output } = await runToEnd(settings);
    assert.match(output, /^parley: DATABASE_URL: leads to a pooler in transaction mode\. .*\n$/);
    assert.equal(code, 2);
    await startServer(t, { database });
  });

  test('a database whose encoding has no place for most characters is refused', async (t) => {
    const database = await createDatabase();
    const url = new URL(database.settings.DATABASE_URL ?? '');
    const client = new pg.Client({ connectionString: url.href });
    await client.connect();
    const name = `western_${process.pid}`;
    await client.query(`create database ${name} encoding 'WIN1252' locale 'C' template template0`);
    t.after(async () => {
      await client.query(`drop database ${name}`);
      await client.end();
      await database.remove();
    });
    url.pathname = `/${name}`;
    const { code, output } = await runToEnd({ PARLEY_DATA_DIR: directory, DATABASE_URL: url.href });
    assert.match(
      output,
      /^parley: DATABASE_URL: the encoding of the database is WIN1252, .* createdb --encoding=UTF8 --template=template0\n$/,
    );
    assert.equal(code, 2);
  });

  test('an unreachable database is one clear line', async () => {
    const { code, output } = await runToEnd({ PARLEY_DATA_DIR: directory, DATABASE_URL: 'postgresql://parley@127.0.0.1:1/parley' });
    assert.equal(code, 1);
    assert.match(output, /^parley: DATABASE_URL: connect ECONNREFUSED 127.0.0.1:1\n$/);
  });
}
