// Builds the dashboard into dashboard/dist, with a compressed copy of each file beside it.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { constants, gzipSync } from 'node:zlib';
import { build } from 'vite';

const root = fileURLToPath(new URL('../dashboard', import.meta.url));

export async function buildDashboard() {
  await build({ root, configFile: join(root, 'vite.config.ts'), logLevel: 'warn' });
  for (const entry of readdirSync(join(root, 'dist'), { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !/\.(js|css|html|svg)$/.test(entry.name)) continue;
    const path = join(entry.parentPath, entry.name);
    writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: constants.Z_BEST_COMPRESSION }));
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildDashboard();
