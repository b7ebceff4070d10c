// `npm test`: the checks, every test once, and the acceptance tests on both engines. `npm test -- path...` runs only those files or folders.
import { spawnSync } from 'node:child_process';
import { globSync, statSync } from 'node:fs';
import { relative, resolve } from 'node:path';
import { pgliteTemplate } from '../support/engine.ts';
import { type PostgresServer, startPostgres } from '../support/postgres-server.ts';
import { type Outcome, runFiles } from './run-files.ts';

process.chdir(resolve(import.meta.dirname, '../..'));
const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop.abort(signal));
try {
  process.exitCode = (await runEverything(process.argv.slice(2))) ? 0 : 1;
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

async function runEverything(paths: string[]): Promise<boolean> {
  const engines = chooseEngines();
  const files = chooseFiles(paths);
  const acceptance = files.filter((file) => file.startsWith('test/acceptance/'));
  const total: Outcome = { passed: 0, failed: 0, skipped: 0 };
  const add = (outcome: Outcome) => {
    total.passed += outcome.passed;
    total.failed += outcome.failed;
    total.skipped += outcome.skipped;
  };

  if (paths.length === 0 && !check()) total.failed += 1;
  // Once here, rather than by several files at the same time.
  await pgliteTemplate();
  const others = files.filter((file) => !acceptance.includes(file));
  if (others.length > 0) add(await runFiles('tests', others, {}, stop.signal));
  for (const engine of acceptance.length > 0 ? engines : []) {
    if (stop.signal.aborted) break;
    if (engine === 'pglite') add(await runFiles('acceptance on PGlite', acceptance, { PARLEY_TEST_ENGINE: 'pglite' }, stop.signal));
    else add(await runOnPostgres(acceptance));
  }

  if (stop.signal.aborted) console.log(`\nInterrupted (${stop.signal.reason}).`);
  console.log(`\n${total.passed} passed, ${total.failed} failed${total.skipped > 0 ? `, ${total.skipped} skipped` : ''}`);
  return total.failed === 0 && total.passed > 0 && !stop.signal.aborted;
}

function chooseFiles(paths: string[]): string[] {
  const patterns = paths.length === 0 ? ['test'] : paths.map((path) => relative(process.cwd(), resolve(path)));
  return patterns.flatMap((path) => (statSync(path).isDirectory() ? globSync(`${path}/**/*.test.ts`).sort() : [path]));
}

function chooseEngines(): string[] {
  const chosen = process.env.PARLEY_TEST_ENGINE;
  if (chosen && chosen !== 'pglite' && chosen !== 'postgres') throw new Error(`PARLEY_TEST_ENGINE: pglite or postgres, not "${chosen}"`);
  if (chosen) return [chosen];
  if (process.env.PARLEY_TEST_SKIP_POSTGRES !== '1') return ['pglite', 'postgres'];
  if (process.env.CI) throw new Error('PARLEY_TEST_SKIP_POSTGRES is for a developer without PostgreSQL; it is refused where CI is set');
  console.log('PostgreSQL is left out (PARLEY_TEST_SKIP_POSTGRES).');
  return ['pglite'];
}

async function runOnPostgres(files: string[]): Promise<Outcome> {
  let server: PostgresServer | undefined;
  try {
    if (!process.env.TEST_DATABASE_URL) server = await startPostgres();
  } catch (error) {
    console.log(`\nacceptance on PostgreSQL could not run: ${error instanceof Error ? error.message : error}`);
    console.log('Set TEST_DATABASE_URL to the address of a server, or PARLEY_TEST_SKIP_POSTGRES=1 to go without on your own machine.');
    return { passed: 0, failed: 1, skipped: 0 };
  }
  const url = server?.url ?? process.env.TEST_DATABASE_URL;
  const environment = { PARLEY_TEST_ENGINE: 'postgres', TEST_DATABASE_URL: url };
  const outcome = await runFiles('acceptance on PostgreSQL', files, environment, stop.signal);
  await server?.stop();
  return outcome;
}

function check(): boolean {
  console.log('npm run check');
  const { status, signal } = spawnSync('npm', ['run', '--silent', 'check'], { stdio: ['ignore', 'inherit', 'inherit'] });
  if (signal !== null) stop.abort(signal);
  if (status !== 0) console.log('npm run check failed');
  return status === 0;
}
