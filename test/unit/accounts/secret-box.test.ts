import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { contextOfOrg, createSecretBox } from '../../../src/accounts/secret-box.ts';
import { findOrCreateSecretKey } from '../../../src/accounts/secret-key.ts';
import { loadConfig } from '../../../src/config.ts';

test('what is sealed opens only with its key and its context, and is never the same twice', () => {
  const box = createSecretBox(Buffer.alloc(32, 1));
  const sealed = box.seal('sk-very-secret', 'org 1');
  assert.equal(box.open(sealed, 'org 1'), 'sk-very-secret');
  assert.notEqual(box.seal('sk-very-secret', 'org 1'), sealed);
  assert.doesNotMatch(sealed, /secret/);
  assert.throws(() => box.open(sealed, 'org 2'));
  assert.throws(() => createSecretBox(Buffer.alloc(32, 2)).open(sealed, 'org 1'), /sealed with the secret key/);
  assert.throws(() => box.open(`${sealed.slice(0, -3)}AAA`, 'org 1'));
});

test('what an earlier version sealed or derived stays readable, and what is in another form or cut short is refused', () => {
  const box = createSecretBox(Buffer.alloc(32, 1));
  const sealed = 'v1.b1aa134a.DvB6unuuNg0ImVwI2GmFQ0XZETYo3Nbm73eFFZN63HyX1rup013tWhoT';
  assert.equal(box.open(sealed, contextOfOrg(7)), 'sk-very-secret');
  assert.equal(box.derive('cookies'), 'gFvXaqje7MG-b9PljOCaDNPEdLGEBoykC4NcwpE4VHY');
  for (const other of [sealed.replace('v1', 'v2'), 'v1.b1aa134a', '']) assert.throws(() => box.open(other, 'org 7'), /not a sealed value/);
  const [version, keyId, payload = ''] = box.seal('', 'org 7').split('.');
  const shortTag = Buffer.from(payload, 'base64url').subarray(0, 16).toString('base64url');
  assert.throws(() => box.open(`${version}.${keyId}.${shortTag}`, 'org 7'), /authentication tag/);
});

test('without a key in the settings one is made, kept for its owner only, and found again', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'parley-'));
  try {
    const config = loadConfig({ PARLEY_DATA_DIR: directory });
    const [first, second] = await Promise.all([findOrCreateSecretKey(config), findOrCreateSecretKey(config)]);
    assert.match(first.warning ?? '', /PARLEY_SECRET_KEY/);
    assert.equal(first.box.keyId, second.box.keyId);
    assert.equal((await findOrCreateSecretKey(config)).box.keyId, first.box.keyId);
    assert.equal(statSync(join(directory, 'secret.key')).mode & 0o777, 0o600);
    assert.deepEqual(readdirSync(directory), ['secret.key'], 'nothing else is left there');
    const fixed = await findOrCreateSecretKey(loadConfig({ PARLEY_SECRET_KEY: 'ab'.repeat(32) }));
    assert.equal(fixed.warning, undefined);
  } finally {
    rmSync(directory, { recursive: true });
  }
});

test('a key that a person put into the data directory may be hex, as in the setting, and another text is refused', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'parley-'));
  try {
    const config = loadConfig({ PARLEY_DATA_DIR: directory });
    writeFileSync(join(directory, 'secret.key'), `${'ab'.repeat(32)}\n`);
    const fixed = await findOrCreateSecretKey(loadConfig({ PARLEY_SECRET_KEY: 'ab'.repeat(32) }));
    assert.equal((await findOrCreateSecretKey(config)).box.keyId, fixed.box.keyId);
    writeFileSync(join(directory, 'secret.key'), 'hunter2\n');
    await assert.rejects(findOrCreateSecretKey(config), /^Error: PARLEY_SECRET_KEY: \S+secret\.key must be 32 bytes as Base64 or hex/);
  } finally {
    rmSync(directory, { recursive: true });
  }
});

test('a start that dies in the first write of its key leaves no half of one, and the next start makes it', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'parley-'));
  try {
    const config = loadConfig({ PARLEY_DATA_DIR: directory });
    const source = (path: string) => JSON.stringify(join(import.meta.dirname, '../../../src', path));
    const program = `const { findOrCreateSecretKey } = await import(${source('accounts/secret-key.ts')});
      const { loadConfig } = await import(${source('config.ts')});
      await findOrCreateSecretKey(loadConfig({ PARLEY_DATA_DIR: ${JSON.stringify(directory)} }));`;
    // The shell's limit ends every write into a file at its first byte, whoever writes.
    const start = `ulimit -f 0; exec "$0" --input-type=module --eval "$1"`;
    const died = spawnSync('/bin/sh', ['-c', start, process.execPath, program], { encoding: 'utf8' });
    assert.notEqual(died.status, 0);
    assert.match(died.stderr, /EFBIG/);
    assert.ok(!readdirSync(directory).includes('secret.key'));
    // As kill -9 would leave it.
    writeFileSync(join(directory, 'secret.key.0123456789ab'), '');
    const { box } = await findOrCreateSecretKey(config);
    assert.equal((await findOrCreateSecretKey(config)).box.keyId, box.keyId);
  } finally {
    rmSync(directory, { recursive: true });
  }
});

test('many starts at once agree on one key', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'parley-'));
  try {
    const config = loadConfig({ PARLEY_DATA_DIR: directory });
    const loaded = await Promise.all(Array.from({ length: 16 }, () => findOrCreateSecretKey(config)));
    assert.equal(new Set(loaded.map(({ box }) => box.keyId)).size, 1);
    assert.deepEqual(readdirSync(directory), ['secret.key']);
  } finally {
    rmSync(directory, { recursive: true });
  }
});

test('a data directory that is a file, or lies below one or where none can be made, is told with the setting that names it', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'parley-'));
  const file = join(directory, 'a-file');
  writeFileSync(file, '');
  try {
    for (const path of [file, join(file, 'data'), ...(process.platform === 'linux' ? ['/proc/parley/data'] : [])])
      await assert.rejects(findOrCreateSecretKey(loadConfig({ PARLEY_DATA_DIR: path })), (error: Error) =>
        error.message.startsWith(`PARLEY_DATA_DIR: ${path} is not writable (`),
      );
  } finally {
    rmSync(directory, { recursive: true });
  }
});
