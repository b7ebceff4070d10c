// Plain JavaScript without packages, as install.mjs is: builds the dashboard before a start that would have none, or an old one.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

/** Never in the way of a start: without the development packages, or when it fails, the server says on the page what to do. */
export function buildMissing() {
  if (!existsSync(join(root, 'node_modules', 'vite')) || isBuilt()) return;
  console.error('Building the dashboard, once ...');
  const started = Date.now();
  const { status } = spawnSync(process.execPath, [join(root, 'scripts/build-dashboard.mjs')], { stdio: ['ignore', 2, 2] });
  if (status === 0) console.error(`Built in ${Math.round((Date.now() - started) / 1000)} s.`);
  else console.error('The dashboard could not be built; the API works without it.');
}

function isBuilt() {
  const built = statSync(join(root, 'dashboard/dist/index.html'), { throwIfNoEntry: false });
  if (built === undefined) return false;
  const sources = readdirSync(join(root, 'dashboard'), { recursive: true, withFileTypes: true });
  return sources.every(
    (entry) =>
      !entry.isFile() ||
      entry.parentPath.startsWith(join(root, 'dashboard/dist')) ||
      statSync(join(entry.parentPath, entry.name)).mtimeMs <= built.mtimeMs,
  );
}
