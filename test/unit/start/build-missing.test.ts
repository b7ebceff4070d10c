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

/** As if a file were changed just now. Nothing is built. */
const asIfChanged = (path: string) =>
  `data:text/javascript,
  import childProcess from 'node:child_process';
  import fs from 'node:fs';
  import { syncBuiltinESMExports } from 'node:module';
  const { lstatSync } = fs;
  fs.lstatSync = (path) => (path.endsWith('${path}') ? { isFile: () => true, mtimeMs: Infinity } : lstatSync(path));
  childProcess.spawnSync = () => ({ status: 0 });
  syncBuiltinESMExports();`.replaceAll(/\s+/g, ' ');

for (const [path, built] of [
  ['widget/src/distinct-names.ts', ['the dashboard', 'the chat widget']],
  ['client/src/index.ts', ['the chat widget']],
  ['dashboard/dist/index.html', []],
] satisfies [string, string[]][])
  test(`after a change of ${path}, what is built again: ${built.join(', ') || 'nothing'}`, () => {
    execFileSync(process.execPath, [script], { stdio: 'ignore' });
    const { stderr } = spawnSync(process.execPath, ['--import', asIfChanged(path), script], { encoding: 'utf8' });
    assert.deepEqual(
      [...stderr.matchAll(/^Building (.*) \.\.\.$/gm)].map(([, what]) => what),
      built,
    );
  });
