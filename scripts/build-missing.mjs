// Plain JavaScript without packages, as install.mjs is: builds what browsers are served before a start that would have none, or an old one,
// and packs and compiles the server before its first start.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const pinnedNode = join(root, 'node_modules/node/bin', process.platform === 'win32' ? 'node.exe' : 'node');

const parts = [
  {
    says: 'Joining the files of two packages, so that every start is faster',
    script: 'pack-packages.mjs',
    output: 'node_modules/kysely/dist/packed',
    sources: [],
  },
  // Once only: what has changed since is compiled by the start itself.
  {
    says: 'Compiling the server, so that every start is faster',
    script: 'compile-server.mjs',
    output: 'node_modules/.cache/parley/compiled/done',
    sources: [],
    isPlain: true,
  },
  { says: 'Building the dashboard', script: 'build-dashboard.mjs', output: 'dashboard/dist/index.html', sources: ['dashboard'] },
  {
    says: 'Building the chat widget',
    script: 'build-widget.mjs',
    output: 'widget/dist/parley-chat.js.gz',
    sources: ['widget', 'client/src'],
  },
];

/** Never in the way of a start: without the development packages, or when it fails, the server says in its place what to do. */
export function buildMissing() {
  const hasVite = existsSync(join(root, 'node_modules', 'vite'));
  for (const { says, script, output, sources, isPlain } of parts) {
    if ((!isPlain && !hasVite) || isBuilt(output, sources)) continue;
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
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter(
    (entry) => entry.isFile() && !entry.parentPath.startsWith(join(folder, 'dist')),
  );
  return Math.max(...files.map((entry) => statSync(join(entry.parentPath, entry.name)).mtimeMs));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) buildMissing();
