// Puts the query builder's 255 files into one, in its place in node_modules: loading them one by one is a third of the processor's time of a
// start. npm brings the original back with every version that it installs.
import { renameSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';

const index = fileURLToPath(import.meta.resolve('kysely'));

export async function packKysely() {
  const [{ output }] = await build({
    configFile: false,
    logLevel: 'warn',
    build: { write: false, minify: false, target: 'esnext', lib: { entry: index, formats: ['es'] } },
  });
  // Somebody may be loading it.
  writeFileSync(`${index}.${process.pid}`, output[0].code);
  renameSync(`${index}.${process.pid}`, index);
  writeFileSync(new URL('packed', import.meta.resolve('kysely')), '');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await packKysely();
