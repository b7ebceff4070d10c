// `npm run build`: installs what is missing, then builds the dashboard, the widget, the packages that are packed into one file each, and
// the client package. The server runs without it.
import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { installMissing, pinnedNode, root } from './install.mjs';

installMissing('all');
for (const script of ['build-dashboard.mjs', 'build-widget.mjs', 'pack-packages.mjs']) run(`scripts/${script}`);
// What it was compiled from may be gone, and all of it is published.
rmSync(join(root, 'client/dist'), { recursive: true, force: true });
run('node_modules/typescript/bin/tsc', '--project', join(root, 'client'));

function run(script, ...args) {
  const { status } = spawnSync(pinnedNode, [join(root, script), ...args], { stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}
