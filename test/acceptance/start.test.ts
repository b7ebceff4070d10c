// How the program starts: settings, help, the first start and the data directory.
import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { locks } from '../../src/database/locks.ts';
import { createDatabase, engine } from '../support/engine.ts';
import { main, spawnServer, startServer } from '../support/server-process.ts';
import { until } from '../support/until.ts';

const directory = mkdtempSync(join(tmpdir(), 'parley-start-'));
after(() => rmSync(directory, { recursive: true }));

async function runToEnd(settings: Record<string, string>, args: string[] = []): Promise<{ code: number | null; output: string }> {
  const printed: string[] = [];
  const child = spawnServer(
    { PARLEY_DATA_DIR: directory, PORT: '0', PARLEY_LOG_LEVEL: 'error', ...settings },
    (text) => printed.push(text),
    args,
  );
  await once(child, 'close');
  return { code: child.exitCode, output: printed.join('') };
}

const badSettings: [name: string, value: string, says: string][] = [
  ['PORT', '80a', 'must be a whole number from 0 to 65535, not "80a"'],
  ['PORT', '65536', 'must be a whole number from 0 to 65535, not "65536"'],
  ['PARLEY_RATE_LIMIT_RPS', ' ', 'must be a whole number from 0 to 10000000, not " "'],
  ['OPENAI_API_KEY', 'sk-123\n', 'a key must be printable ASCII without spaces or line breaks'],
  ['DATABASE_URL', 'mysql://127.0.0.1/parley', 'must be a URL that starts with postgres:// or postgresql://'],
  ['DATABASE_URL', 'postgres://parley:a/b@db/parley', 'is not a valid URL; encode special characters of its password (/ is %2F, # is %23)'],
  ['PARLEY_PUBLIC_URL', 'https://parley.example.com/?a=b', 'must be a URL without ? and #'],
  ['REDIS_URL', '127.0.0.1:6379', 'must be a URL that starts with redis:// or rediss://'],
  ['REDIS_URL', 'redis://127.0.0.1:6379/parley', 'what follows the host must be the number of a database, as in redis://host:6379/0'],
  ['PARLEY_API_KEY', 'svc_live_0123456789abcde', 'must be svc_live_ and 16 to 247 of A-Z a-z 0-9 _ -'],
  ['PARLEY_OPERATOR_KEY', 'svc_live_0123456789abcdef', 'must be svc_operator_ and 16 to 243 of A-Z a-z 0-9 _ -'],
  ['PARLEY_SECRET_KEY', 'c2hvcnQ=', 'must be 32 bytes as Base64 or hex, as `openssl rand -base64 32` makes them'],
  ['PARLEY_GATEWAY', 'yes', 'must be 1 or 0, not "yes"'],
  ['PARLEY_GATEWAY_PEERS', '[1]', 'must be a JSON object'],
  ['PARLEY_GATEWAY_PEERS', '{"peer":"k"}', '"peer" must be a URL that starts with http:// or https://'],
  ['PARLEY_LOG_LEVEL', 'loud', 'must be one of fatal, error, warn, info, debug, trace, silent, not "loud"'],
  ['PARLEY_BASE_HOST', 'https://api.example.com', 'must be a host name such as api.example.com, not "https://api.example.com"'],
  ['PARLEY_TRUST_PROXY', '10.0.0.0/33', 'must be addresses or networks such as 10.0.0.0/8, not "10.0.0.0/33"'],
  [
    'PARLEY_CORS_ORIGINS',
    'https://a.example, https://b.example/',
    'must be * or origins such as https://app.example.com, without a path, not "https://b.example/"',
  ],
  [
    'PARLEY_PRICES',
    '{"opnai/gpt-5":{"input":1,"output":1}}',
    '"opnai/gpt-5" must start with one of offline, anthropic, openai, google, openai-compatible',
  ],
  ['PARLEY_MAX_TURNS', '0', 'must be a whole number from 1 to 1000000, not "0"'],
];
for (const [name, value, says] of badSettings) {
  test(`${name}=${value} stops the start with one line that names it`, async () => {
    assert.deepEqual(await runToEnd({ [name]: value }), { code: 2, output: `parley: ${name}: ${says}\n` });
  });
}

const badArguments: [args: string[], says: string][] = [
  [['--port', '9000'], '--port: is not an option; npm start -- --help lists the options and settings'],
  [['9000'], '9000: is not an option; npm start -- --help lists the options and settings'],
  [['--workers=0'], '--workers: must be a whole number from 1 to 256'],
  [['--workers=2'], '--workers: several processes need DATABASE_URL; the embedded database takes one'],
];
for (const [args, says] of badArguments) {
  test(`${args.join(' ')} behind npm start -- stops it with one line`, async () => {
    assert.deepEqual(await runToEnd({}, args), { code: 2, output: `parley: ${says}\n` });
  });
}

test('--help lists every setting and starts nothing', async () => {
  const { code, output } = await runToEnd({ PORT: 'not looked at' }, ['--help']);
  assert.equal(code, 0);
  const lines = [...output.matchAll(/^ {2}([A-Z][A-Z0-9_]+) +(.*?)(?: \(default: (.*)\))?$/gm)];
  const named = lines.map(([, name]) => name);
  for (const [name] of badSettings) assert.ok(named.includes(name), name);
  const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8').replaceAll(/ +/g, ' ');
  for (const [, name, description, fallback] of lines) {
    const row = `| \`${name}\` | ${description} |${fallback === undefined ? '' : ` \`${fallback}\``} |`;
    assert.ok(readme.includes(row), `the table of the README has the row ${row}`);
  }
  for (const name of ['HOST', 'PARLEY_DATA_DIR', 'PARLEY_BASE_HOST', 'PARLEY_AGENT_HOST', 'PARLEY_MANAGEMENT_HOST', 'PARLEY_DRAIN_SECONDS'])
    assert.ok(named.includes(name), name);
});

test('a .env file of the working directory counts, the environment wins over it, and one that cannot be read stops the start', async () => {
  const file = join(directory, '.env');
  writeFileSync(file, 'PARLEY_DRAIN_SECONDS=soon\n');
  try {
    const refused = await runToEnd({});
    assert.deepEqual(refused, { code: 2, output: 'parley: PARLEY_DRAIN_SECONDS: must be a whole number from 0 to 3600, not "soon"\n' });
    const elsewhere = await runToEnd({ PARLEY_DRAIN_SECONDS: '5', PARLEY_MAX_TURNS: 'x' });
    assert.match(elsewhere.output, /^parley: PARLEY_MAX_TURNS: /);
    writeFileSync(file, '\uFEFFPARLEY_DRAIN_SECONDS=soon\r\n');
    assert.deepEqual(await runToEnd({}), refused, 'as some editors write it');
    writeFileSync(file, '\uFEFFPARLEY_DRAIN_SECONDS=soon\r\n', 'utf16le');
    assert.match((await runToEnd({})).output, /^parley: \.env: .*utf-8\n$/);
    rmSync(file);
    symlinkSync('.env', file);
    const unreadable = await runToEnd({});
    assert.equal(unreadable.code, 2);
    assert.match(unreadable.output, /^parley: \.env: ELOOP.*\n$/);
  } finally {
    rmSync(file);
  }
});

test('a host that is none of this machine is one line that names the setting', async (t) => {
  const database = await createDatabase();
  t.after(database.remove);
  const host = await runToEnd({ ...database.settings, HOST: '203.0.113.7' });
  assert.equal(host.code, 2);
  assert.match(host.output, /^parley: HOST: cannot listen on 203\.0\.113\.7 \(.*EADDRNOTAVAIL.*\)\n$/);
});

test('a port in use is one clear line that names it', async (t) => {
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

test('a setting that does not exist is named: it may be misspelt', async (t) => {
  // Kubernetes sets the second for a service that is named parley.
  const server = await startServer(t, { settings: { PARLEY_DATABSE_POOL: '5', PARLEY_SERVICE_HOST: '10.0.0.1' } });
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

test('a server that whoever forked it has let go of ends well', async (t) => {
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

test('a key that is not the one of the database stops the start with a line that says where it comes from', async (t) => {
  const server = await startServer(t);
  await server.kill();
  const { PARLEY_DATA_DIR } = server.database.settings;
  rmSync(join(PARLEY_DATA_DIR, 'secret.key'));
  const { code, output } = await runToEnd(server.database.settings);
  assert.equal(code, 2);
  const keyIds = /encrypted with the key \w{8}, but the key in (.*) is \w{8}\. Set the one it was started with\n$/.exec(output);
  assert.equal(keyIds?.[1], join(PARLEY_DATA_DIR, 'secret.key'), output);
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
    const { code, output } = await runToEnd({ DATABASE_URL: url.href });
    assert.equal(output, 'parley: DATABASE_URL: permission denied for schema public. Its role must own the database\n');
    assert.equal(code, 2);
  });

  test('an unreachable database is one clear line', async () => {
    const { code, output } = await runToEnd({ DATABASE_URL: 'postgresql://parley@127.0.0.1:1/parley' });
    assert.equal(code, 1);
    assert.match(output, /^parley: DATABASE_URL: connect ECONNREFUSED 127.0.0.1:1\n$/);
  });
}
