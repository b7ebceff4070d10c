// `npm run build`: what browsers are served, the query builder in one file, and the client as a package. Needs the development packages; the server itself runs without this.
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { buildDashboard } from './build-dashboard.mjs';
import { buildWidget } from './build-widget.mjs';
import { packKysely } from './pack-kysely.mjs';

const file = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));

await buildDashboard();
await buildWidget();
await packKysely();
execFileSync(process.execPath, [file('node_modules/typescript/bin/tsc'), '--project', file('client')], { stdio: 'inherit' });
