import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { createSecretBox, loadSecretKey } from '../../../src/accounts/secret-box.ts';
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

test('without a key in the settings one is made, kept for its owner only, and found again', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'parley-'));
  try {
    const config = loadConfig({ PARLEY_DATA_DIR: directory });
    const [first, second] = await Promise.all([loadSecretKey(config), loadSecretKey(config)]);
    assert.match(first.warning ?? '', /PARLEY_SECRET_KEY/);
    assert.equal(first.box.keyId, second.box.keyId);
    assert.equal((await loadSecretKey(config)).box.keyId, first.box.keyId);
    assert.equal(statSync(join(directory, 'secret.key')).mode & 0o777, 0o600);
    const fixed = await loadSecretKey(loadConfig({ PARLEY_SECRET_KEY: 'ab'.repeat(32) }));
    assert.equal(fixed.warning, undefined);
  } finally {
    rmSync(directory, { recursive: true });
  }
});
