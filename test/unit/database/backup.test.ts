import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { after, test } from 'node:test';
import { getCACertificates } from 'node:tls';
import { loadConfig } from '../../../src/config.ts';
import { backup } from '../../../src/database/backup.ts';
import { dumpPostgres, restorePostgres } from '../../../src/database/postgres-programs.ts';

const folder = mkdtempSync(join(tmpdir(), 'parley-backup-'));
const dumps = join(folder, 'dumps');
mkdirSync(dumps);
const { PATH } = process.env;
after(() => {
  process.env.PATH = PATH;
  delete process.env.PGPASSWORD;
  rmSync(folder, { recursive: true });
});

// In place of PostgreSQL's programs: they write down how they were called.
for (const program of ['pg_dump', 'pg_restore']) {
  const script = `#!/bin/sh\nprintf '%s\\n' "password=$PGPASSWORD" "$@" > '${folder}'/called\ntouch '${dumps}'/database.dump\n`;
  writeFileSync(join(folder, program), script, { mode: 0o755 });
}
process.env.PATH = `${folder}${delimiter}${PATH}`;
delete process.env.PGPASSWORD;

const urls: [name: string, given: string, shown: string, password: string][] = [
  ['beside the user', 'postgres://ann:p%40s%2Fs+1@db.example:5433/parley', 'postgres://ann@db.example:5433/parley', 'p@s/s+1'],
  [
    'beside the user, with options',
    'postgresql://ann:pass@db.example/parley?sslmode=verify-full&options=-c%20geqo%3Doff',
    'postgresql://ann@db.example/parley?sslmode=verify-full&options=-c%20geqo%3Doff',
    'pass',
  ],
  [
    'among the options',
    'postgresql://ann:other@db.example/parley?sslmode=require&password=p%26ss&options=-c%20geqo%3Doff',
    'postgresql://ann@db.example/parley?sslmode=verify-full&options=-c%20geqo%3Doff',
    'p&ss',
  ],
  [
    'beside an option that only the driver knows',
    'postgresql://ann:pass@db.example/parley?uselibpqcompat=true&sslmode=require&options=-c%20geqo%3Doff',
    'postgresql://ann@db.example/parley?sslmode=require&options=-c%20geqo%3Doff',
    'pass',
  ],
  [
    'beside a value that only the driver knows',
    'postgresql://ann:pass@db.example/parley?sslmode=no-verify&statement_timeout=5000&application_name=a%20b',
    'postgresql://ann@db.example/parley?sslmode=require&application_name=a%20b',
    'pass',
  ],
  ['with a sign that is not encoded', 'postgres://ann:50%off@db.example/parley', 'postgres://ann@db.example/parley', '50%off'],
  [
    'beside an authority to trust',
    'postgres://ann:pass@db.example/parley?sslrootcert=/ca.pem',
    'postgres://ann@db.example/parley?sslrootcert=%2Fca.pem&sslmode=verify-full',
    'pass',
  ],
  ['none', 'postgresql:///parley?host=/run/postgresql', 'postgresql:///parley?host=/run/postgresql', ''],
];

for (const [name, given, shown, password] of urls) {
  test(`a password of the database is in no argument: ${name}`, async () => {
    const called = () => readFileSync(join(folder, 'called'), 'utf8').trim().split('\n');
    await dumpPostgres(given, join(dumps, 'database.dump.draft'));
    assert.deepEqual(called(), [`password=${password}`, '--format=custom', `--file=${join(dumps, 'database.dump.draft')}`, shown]);
    await restorePostgres(given, join(dumps, 'database.dump'));
    const options = ['--no-owner', '--no-privileges', '--exit-on-error', '--single-transaction'];
    assert.deepEqual(called(), [`password=${password}`, ...options, `--dbname=${shown}`, join(dumps, 'database.dump')]);
  });
}

test('they verify the certificate of the server as it does, with the authorities that it trusts where the address names none', async () => {
  const shown = join(folder, 'authorities');
  const program = `#!/bin/sh\necho "$PGSSLROOTCERT" > '${shown}'\ncat $PGSSLROOTCERT >> '${shown}' < /dev/null\ntouch '${dumps}'/database.dump\n`;
  const before = readFileSync(join(folder, 'pg_dump'), 'utf8');
  writeFileSync(join(folder, 'pg_dump'), program);
  const authorities = async (options: string) => {
    const url = `postgres://ann@db.example/parley?${options}`;
    await backup(loadConfig({ DATABASE_URL: url, PARLEY_DATA_DIR: join(folder, 'data') }), dumps);
    const [file = '', ...content] = readFileSync(shown, 'utf8').split('\n');
    assert.ok(file === '' || !existsSync(file), 'it is gone afterwards');
    return content.join('\n');
  };
  for (const options of ['sslmode=require', 'sslmode=verify-full', 'ssl=true', 'ssl=1'])
    assert.equal(await authorities(options), getCACertificates().join('\n'), options);
  for (const options of ['sslmode=verify-full&sslrootcert=/ca.pem', 'sslmode=require&uselibpqcompat=true', 'sslmode=no-verify', ''])
    assert.equal(await authorities(options), '', options);
  writeFileSync(join(folder, 'pg_dump'), before);
});

test('without a password in the address, the one of the environment is left to them', async () => {
  process.env.PGPASSWORD = 'from outside';
  await backup(loadConfig({ DATABASE_URL: 'postgres://ann@db.example/parley', PARLEY_DATA_DIR: join(folder, 'data') }), dumps);
  assert.match(readFileSync(join(folder, 'called'), 'utf8'), /^password=from outside\n/);
});

test('a backup is on the disk before it takes the place of the one before', async (t) => {
  const place = join(folder, 'flushed');
  mkdirSync(place);
  const settings = { DATABASE_URL: 'postgres://ann@db.example/parley', PARLEY_DATA_DIR: join(folder, 'data') };
  for (const file of ['database.dump', 'secret.key']) writeFileSync(join(place, file), 'before');
  const handle = await open(join(place, 'secret.key'));
  const present: string[] = [];
  t.mock.method(Object.getPrototypeOf(handle), 'sync', async () => {
    present.push(...['database.dump', 'secret.key'].map((file) => readFileSync(join(place, file), 'utf8')));
  });
  await handle.close();
  await backup(loadConfig({ ...settings, PARLEY_SECRET_KEY: 'a'.repeat(64) }), place);
  assert.deepEqual(present, ['before', 'before', '', 'before']);
  assert.notEqual(readFileSync(join(place, 'secret.key'), 'utf8'), 'before');
});

test('the key in a backup is the one in use, and a backup that fails leaves the one before it', async () => {
  const data = join(folder, 'server');
  const place = join(folder, 'backup');
  mkdirSync(data);
  mkdirSync(place, { mode: 0o755 });
  const rotated = Buffer.alloc(32, 7).toString('base64');
  const settings = { DATABASE_URL: 'postgres://ann@db.example/parley', PARLEY_DATA_DIR: data };
  const keyIn = () => readFileSync(join(place, 'secret.key'), 'utf8');
  assert.deepEqual(await backup(loadConfig(settings), place), { hasKey: false });
  writeFileSync(join(data, 'secret.key'), 'from before the rotation');
  assert.deepEqual(await backup(loadConfig(settings), place), { hasKey: true });
  assert.equal(keyIn(), 'from before the rotation');
  await backup(loadConfig({ ...settings, PARLEY_SECRET_KEY: rotated }), place);
  assert.equal(keyIn(), `${rotated}\n`);
  for (const file of ['secret.key', 'database.dump']) assert.equal(statSync(join(place, file)).mode & 0o777, 0o600, file);
  writeFileSync(join(folder, 'pg_dump'), `#!/bin/sh\necho half > "\${2#--file=}"\nexit 1\n`);
  writeFileSync(join(place, 'database.dump'), 'whole');
  await assert.rejects(backup(loadConfig(settings), place), /pg_dump failed/);
  assert.deepEqual(
    [readdirSync(place).sort(), readFileSync(join(place, 'database.dump'), 'utf8')],
    [['database.dump', 'secret.key'], 'whole'],
  );
});

test('a backup goes into no folder with other files, and into no file', async () => {
  const config = loadConfig({ DATABASE_URL: 'postgres://ann@db.example/parley', PARLEY_DATA_DIR: join(folder, 'data') });
  const place = join(folder, 'source');
  mkdirSync(place);
  writeFileSync(join(place, 'main.ts'), '');
  await assert.rejects(
    backup(config, place),
    new Error(`${place} has other files: name a folder that is new, empty or has an earlier backup`),
  );
  assert.deepEqual(readdirSync(place), ['main.ts']);
  await assert.rejects(backup(config, join(place, 'main.ts')), { message: `${join(place, 'main.ts')} is not a folder` });
});
