// Replaces the entry file of two packages in node_modules by a bundle of all their files. Kysely has 255 and typebox's schema compiler 235:
// loading them one by one takes a third of the CPU time of a start and half of that of a first request. Installing a package with npm
// brings its original file back.
import { renameSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';

for (const name of ['typebox/schema', 'kysely']) await pack(fileURLToPath(import.meta.resolve(name)));
// Tells build-missing.mjs that this is done; npm removes the file with Kysely. After an update of typebox alone it stays, and typebox is
// then only slower to load.
writeFileSync(new URL('packed', import.meta.resolve('kysely')), '');

async function pack(entry) {
  const [{ output }] = await build({
    configFile: false,
    logLevel: 'warn',
    build: { write: false, minify: false, target: 'esnext', lib: { entry, formats: ['es'] } },
  });
  // Renamed into place, because another process may be loading the package.
  writeFileSync(`${entry}.${process.pid}`, output[0].code);
  renameSync(`${entry}.${process.pid}`, entry);
}
