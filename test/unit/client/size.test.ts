// What a page pays for the client and for the widget.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { build } from 'vite';
import { buildWidget } from '../../support/build-widget.ts';

const root = join(import.meta.dirname, '../../..');

test('the client is under 12 kB gzipped, whole, and needs no other package', async () => {
  const result = await build({
    root,
    configFile: false,
    logLevel: 'silent',
    build: {
      write: false,
      target: 'es2022',
      modulePreload: { polyfill: false },
      rolldownOptions: { input: 'client/src/index.ts', preserveEntrySignatures: 'strict', output: { entryFileNames: 'client.js' } },
    },
  });
  assert.ok('output' in result);
  const [bundle, ...more] = result.output;
  assert.equal(more.length, 0);
  assert.match(bundle.code, /ParleyClient/);
  assert.deepEqual(
    bundle.moduleIds.filter((id) => !id.startsWith(join(root, 'client/src/'))),
    [],
  );
  const size = gzipSync(bundle.code).length;
  assert.ok(size > 2_000 && size < 12_000, `${size} bytes`);
});

test('the widget is under 25 kB gzipped, in one file', () => {
  const size = gzipSync(buildWidget()).length;
  assert.ok(size > 5_000 && size < 25_000, `${size} bytes`);
});
