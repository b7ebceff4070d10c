// Builds the chat widget into widget/dist, with a compressed copy beside it.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { constants, gzipSync } from 'node:zlib';
import { build } from 'vite';

const root = fileURLToPath(new URL('../widget', import.meta.url));

export async function buildWidget() {
  await build({ root, configFile: join(root, 'vite.config.ts'), logLevel: 'warn' });
  const path = join(root, 'dist/parley-chat.js');
  writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: constants.Z_BEST_COMPRESSION }));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildWidget();
