import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { after, test } from 'node:test';
import { loadConfig } from '../../../src/config.ts';
import { backup, restore } from '../../../src/database/backup.ts';

const folder = mkdtempSync(join(tmpdir(), 'parley-backup-'));
const { PATH } = process.env;
after(() => {
  process.env.PATH = PATH;
  delete process.env.PGPASSWORD;
  rmSync(folder, { recursive: true });
});

// In place of PostgreSQL's programs: they write down how they were called.
for (const program of ['pg_dump', 'pg_restore']) {
  const script = `#!/bin/sh\nprintf '%s\\n' "password=$PGPASSWORD" "$@" > '${folder}'/called\ntouch '${folder}'/database.dump\n`;
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
    'postgresql://ann@db.example/parley?sslmode=require&options=-c%20geqo%3Doff',
    'p&ss',
  ],
  ['none', 'postgresql:///parley?host=/run/postgresql', 'postgresql:///parley?host=/run/postgresql', ''],
];

for (const [name, given, shown, password] of urls) {
  test(`a password of the database is in no argument: ${name}`, async () => {
    const config = loadConfig({ DATABASE_URL: given, PARLEY_DATA_DIR: join(folder, 'data') });
    const called = () => readFileSync(join(folder, 'called'), 'utf8').trim().split('\n');
    await backup(config, folder);
    assert.deepEqual(called(), [`password=${password}`, '--format=custom', `--file=${join(folder, 'database.dump')}`, shown]);
    await restore(config, folder);
    const options = ['--no-owner', '--exit-on-error', '--single-transaction'];
    assert.deepEqual(called(), [`password=${password}`, ...options, `--dbname=${shown}`, join(folder, 'database.dump')]);
  });
}

test('without a password in the address, the one of the environment is left to them', async () => {
  process.env.PGPASSWORD = 'from outside';
  await backup(loadConfig({ DATABASE_URL: 'postgres://ann@db.example/parley', PARLEY_DATA_DIR: join(folder, 'data') }), folder);
  assert.match(readFileSync(join(folder, 'called'), 'utf8'), /^password=from outside\n/);
});
