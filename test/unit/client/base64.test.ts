import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bytesToBase64 } from '../../../client/src/base64.ts';

test('bytes become Base64, however many, by the engine where it has a method for it', () => {
  for (const length of [0, 1, 2, 3, 8_191, 8_192, 8_193, 100_000]) {
    const bytes = Uint8Array.from({ length }, (_, index) => index % 251);
    assert.equal(bytesToBase64(bytes), Buffer.from(bytes).toString('base64'), `${length} bytes`);
  }
  assert.equal(bytesToBase64(Object.assign(new Uint8Array(3), { toBase64: () => 'of the engine' })), 'of the engine');
});
