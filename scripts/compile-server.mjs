// Fills Node's compile cache by loading the server without starting it. With a full cache a start takes half the time, and Node does not
// load its TypeScript compiler, which takes 20 MiB of memory.
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { enableCompileCache } from 'node:module';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';

const folder = fileURLToPath(new URL('../node_modules/.cache/parley/compiled', import.meta.url));
const main = fileURLToPath(new URL('../src/main.ts', import.meta.url));

enableCompileCache(folder);
// The same flag as in main.ts: V8 rejects a cache that was made under other flags.
setFlagsFromString('--semi-space-growth-factor=1');
for (const part of ['start/serve.ts', 'database/postgres.ts', 'database/pglite.ts'])
  await import(new URL(`../src/${part}`, import.meta.url));
// Importing main.ts would start a server. With --help it loads the remaining files, prints the settings and ends.
execFileSync(process.execPath, [main, '--help'], { env: { ...process.env, NODE_COMPILE_CACHE: folder }, stdio: 'ignore' });
writeFileSync(`${folder}/done`, '');
