// Builds the dashboard into dashboard/dist, with a compressed copy of each file beside it. It is built into another folder first and then
// moved into place, so that a running server never serves half a build.
import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { constants, gzipSync } from 'node:zlib';
import { build } from 'vite';

const project = fileURLToPath(new URL('..', import.meta.url));
const root = join(project, 'dashboard');

const outDir = join(project, '.cache', `dashboard-${process.pid}`);
await build({ root, configFile: join(root, 'vite.config.ts'), logLevel: 'warn', build: { outDir, emptyOutDir: true } });
for (const entry of readdirSync(outDir, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile() || !/\.(js|css|html|svg)$/.test(entry.name)) continue;
  const path = join(entry.parentPath, entry.name);
  writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: constants.Z_BEST_COMPRESSION }));
}
const dist = join(root, 'dist');
rmSync(dist, { recursive: true, force: true });
renameSync(outDir, dist);
