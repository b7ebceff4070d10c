// Before a start: builds the dashboard and the widget if they are missing or older than their sources and, the first time, packs packages
// and compiles the server. Like install.mjs, it runs on the machine's own Node and imports no package.
import { spawnSync } from 'node:child_process';
import { existsSync, lstatSync, readdirSync, statSync } from 'node:fs';
import { join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { pinnedNode, root } from './install.mjs';

const parts = [
  {
    says: 'Joining the files of two packages, so that every start is faster',
    script: 'pack-packages.mjs',
    output: 'node_modules/kysely/dist/packed',
    sources: [],
  },
  // No sources: Node itself compiles at each start what has changed since, and keeps it.
  {
    says: 'Compiling the server, so that every start is faster',
    script: 'compile-server.mjs',
    output: 'node_modules/.cache/parley/compiled/done',
    sources: [],
    withoutVite: true,
  },
  {
    says: 'Building the dashboard',
    script: 'build-dashboard.mjs',
    output: 'dashboard/dist/index.html',
    sources: ['dashboard', 'widget/src'],
  },
  {
    says: 'Building the chat widget',
    script: 'build-widget.mjs',
    output: 'widget/dist/parley-chat.js.gz',
    sources: ['widget', 'client/src'],
  },
];

/**
 * Never prevents a start: what cannot be built, because it failed or the development packages are not installed, is left
 * out, and the server says at its URL how to build it.
 */
export function buildMissing() {
  const hasVite = existsSync(join(root, 'node_modules', 'vite'));
  for (const { says, script, output, sources, withoutVite } of parts) {
    if ((!withoutVite && !hasVite) || isBuilt(output, sources)) continue;
    console.error(`${says} ...`);
    const started = Date.now();
    const { status } = spawnSync(pinnedNode, [join(root, 'scripts', script)], { stdio: ['ignore', 2, 2] });
    if (status === 0) console.error(`Done in ${Math.round((Date.now() - started) / 1000)} s.`);
    else console.error('That failed; the API works without it.');
  }
}

function isBuilt(output, sources) {
  const built = statSync(join(root, output), { throwIfNoEntry: false });
  return built !== undefined && sources.every((folder) => newestChange(join(root, folder)) <= built.mtimeMs);
}

function newestChange(folder) {
  // Only the names: the entries of Node 20 before 20.12 do not say in which folder they are.
  const files = readdirSync(folder, { recursive: true })
    .filter((path) => !path.startsWith(`dist${sep}`))
    .map((path) => lstatSync(join(folder, path)))
    .filter((entry) => entry.isFile());
  return Math.max(...files.map(({ mtimeMs }) => mtimeMs));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) buildMissing();
