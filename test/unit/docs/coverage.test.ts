// docs/coverage.md names only tests that exist, and every acceptance test.
import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

const root = join(import.meta.dirname, '../../..');
const page = readFileSync(join(root, 'docs/coverage.md'), 'utf8');

test('every test that the page names exists', () => {
  const named = [...page.matchAll(/`([^`]*\.test\.ts|test\/[^`]*)`/g)].map(([, path = '']) => path);
  assert.ok(named.length > 100, `only ${named.length} are named`);
  assert.deepEqual(
    named.filter((path) => !existsSync(join(root, path))),
    [],
  );
});

test('every acceptance test is on the page', () => {
  const files = globSync('test/acceptance/**/*.test.ts', { cwd: root });
  assert.deepEqual(
    files.filter((path) => !page.includes(`\`${path}\``)),
    [],
  );
});
