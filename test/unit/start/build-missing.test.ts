// What `npm start` and `npm test` do on the machine's own Node, before they hand over to the pinned one.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';

const script = join(import.meta.dirname, '../../../scripts/build-missing.mjs');

/** Directory entries as those of Node 20.0 to 20.11, which lack a property. */
const likeNode20 = `data:text/javascript,
  import fs from 'node:fs';
  import { syncBuiltinESMExports } from 'node:module';
  const { readdirSync } = fs;
  fs.readdirSync = (...given) => readdirSync(...given).map((entry) => (delete entry.parentPath, entry));
  syncBuiltinESMExports();`.replaceAll(/\s+/g, ' ');

test('what is to be built is found out on every Node 20', () => {
  // Only what is there is compared with its sources.
  execFileSync(process.execPath, [script], { stdio: 'ignore' });
  const { status, stderr } = spawnSync(process.execPath, ['--import', likeNode20, script], { encoding: 'utf8' });
  assert.deepEqual({ status, error: /^\w*Error: .*/m.exec(stderr)?.[0] }, { status: 0, error: undefined });
});
