// Puts each of these packages into one file, in its place in node_modules: Kysely has 255 and the compiler of schemas 235, and loading them one
// by one is a third of the processor's time of a start and half of a first request's. npm brings the originals back with every version that
// it installs.
import { renameSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';

const packed = ['typebox/schema', 'kysely'];

export async function packPackages() {
  for (const name of packed) await pack(fileURLToPath(import.meta.resolve(name)));
  // Gone when npm replaces Kysely. After an update of the other alone, that one is as it came: slower to load, and no more.
  writeFileSync(new URL('packed', import.meta.resolve('kysely')), '');
}

async function pack(entry) {
  const [{ output }] = await build({
    configFile: false,
    logLevel: 'warn',
    build: { write: false, minify: false, target: 'esnext', lib: { entry, formats: ['es'] } },
  });
  // Somebody may be loading it.
  writeFileSync(`${entry}.${process.pid}`, output[0].code);
  renameSync(`${entry}.${process.pid}`, entry);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await packPackages();
