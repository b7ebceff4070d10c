// `npm run build`: the dashboard, the widget, the packages that are packed into one file each, and the client package. It needs the
// development packages. The server runs without it.
import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { buildDashboard } from './build-dashboard.mjs';
import { buildWidget } from './build-widget.mjs';
import { packPackages } from './pack-packages.mjs';

const file = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));

await buildDashboard();
await buildWidget();
await packPackages();
// What it was compiled from may be gone, and all of it is published.
rmSync(file('client/dist'), { recursive: true, force: true });
execFileSync(process.execPath, [file('node_modules/typescript/bin/tsc'), '--project', file('client')], { stdio: 'inherit' });
