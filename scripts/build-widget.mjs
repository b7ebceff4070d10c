// Builds the chat widget into widget/dist, with a compressed copy beside it.
import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { constants, gzipSync } from 'node:zlib';
import { build } from 'vite';

const root = fileURLToPath(new URL('../widget', import.meta.url));

const { output } = await build({ root, configFile: join(root, 'vite.config.ts'), logLevel: 'warn', build: { write: false } });
const path = join(root, 'dist', output[0].fileName);
mkdirSync(join(root, 'dist'), { recursive: true });
replaceFile(path, output[0].code);
replaceFile(`${path}.gz`, gzipSync(output[0].code, { level: constants.Z_BEST_COMPRESSION }));

/** Renames a complete file into place, so that a running server always finds either the old one or the new one. */
function replaceFile(path, content) {
  writeFileSync(`${path}.${process.pid}`, content);
  renameSync(`${path}.${process.pid}`, path);
}
