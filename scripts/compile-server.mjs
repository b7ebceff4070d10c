// Loads the server without starting it, so that Node keeps what it compiled. A start that finds nothing to compile takes half the time, and
// does without the compiler for types, which is 20 MiB.
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { enableCompileCache } from 'node:module';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';

const folder = fileURLToPath(new URL('../node_modules/.cache/parley/compiled', import.meta.url));
const main = fileURLToPath(new URL('../src/main.ts', import.meta.url));

enableCompileCache(folder);
// As main.ts does: under other flags V8 would not take it.
setFlagsFromString('--semi-space-growth-factor=1');
for (const part of ['serve.ts', 'database/postgres.ts', 'database/pglite.ts']) await import(new URL(`../src/${part}`, import.meta.url));
// What stands above those starts a server when it is loaded; asked for help, it only says how.
execFileSync(process.execPath, [main, '--help'], { env: { ...process.env, NODE_COMPILE_CACHE: folder }, stdio: 'ignore' });
writeFileSync(`${folder}/done`, '');
