// `npm test`: the checks, every test once, and the acceptance tests on both engines. `npm test -- path...` runs only those files or folders.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, globSync, mkdtempSync, readFileSync, rmSync, statfsSync, statSync } from 'node:fs';
import { relative, resolve } from 'node:path';
import { endWithUs } from '../support/end-with-us.ts';
import { pgliteTemplate } from '../support/engine.ts';
import { type PostgresServer, startPostgres } from '../support/postgres-server.ts';
import { findChromium, findPostgres, findRedis } from '../support/programs.ts';
import { startServer } from '../support/server-process.ts';
import { connect } from '../support/wire.ts';
import { runFiles } from './run-files.ts';
import type { Job } from './run-together.ts';

process.chdir(resolve(import.meta.dirname, '../..'));
const engineNames: Record<string, string> = { pglite: 'PGlite', postgres: 'PostgreSQL' };
const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop.abort(new Error(signal)));
try {
  process.exitCode = (await runEverything(process.argv.slice(2))) ? 0 : 1;
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

async function runEverything(paths: string[]): Promise<boolean> {
  const engines = chooseEngines();
  const files = chooseFiles(paths);
  const checked = paths.length > 0 ? Promise.resolve(true) : check();
  keepFilesInMemory();
  // Here, so that several files do not make it at the same time.
  await pgliteTemplate();
  if (paths.length === 0) installPrograms();
  if (paths.length === 0) await compileServer();
  const jobs: Job[] = [];
  let server: PostgresServer | undefined;
  for (const engine of engines) {
    const environment: Job['environment'] = { PARLEY_TEST_ENGINE: engine };
    if (engine === 'postgres') {
      server = await startUnlessGiven();
      environment.TEST_DATABASE_URL = server?.url ?? process.env.TEST_DATABASE_URL;
    }
    for (const file of files.filter((each) => enginesOf(each, engines).includes(engine))) {
      jobs.push({ file, name: isAcceptance(file) ? `${file} on ${engineNames[engine]}` : file, environment });
    }
  }
  const { passed, failed, skipped } = await runFiles(jobs, stop.signal);
  await server?.stop();
  const isChecked = await checked;

  if (stop.signal.aborted) console.log(`\nInterrupted (${stop.signal.reason.message}).`);
  const failures = failed + (isChecked ? 0 : 1);
  console.log(`\n${passed} passed, ${failures} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`);
  return failures === 0 && passed > 0 && !stop.signal.aborted;
}

/**
 * Puts temporary files into memory where there is plenty: on a disk, creating and removing the 550 files of a database takes a
 * tenth of the time of a test file.
 */
function keepFilesInMemory(): void {
  const memory = '/dev/shm';
  if (process.env.TMPDIR || !statSync(memory, { throwIfNoEntry: false })) return;
  const { bavail, bsize } = statfsSync(memory);
  if (Math.min(bavail * bsize, process.availableMemory()) < 8 * 1024 ** 3) return;
  const folder = mkdtempSync(`${memory}/parley-`);
  // PostgreSQL, which runs as another user, must be able to enter it.
  chmodSync(folder, 0o755);
  endWithUs(() => rmSync(folder, { recursive: true, force: true }));
  process.env.TMPDIR = folder;
}

function installPrograms(): void {
  for (const find of [findPostgres, findRedis, findChromium]) {
    try {
      find();
    } catch {
      // The test file that needs it fails with a message that says what to install.
    }
  }
}

/**
 * Fills Node's compile cache, which is written when a process ends by itself: most servers in the tests are killed. With it
 * they start in two thirds of the time.
 */
async function compileServer(): Promise<void> {
  const endings: (() => Promise<void>)[] = [];
  try {
    const server = await startServer({ after: (end) => endings.push(end) });
    // Some modules are only loaded by the first request.
    await connect(server.url, server.apiKey).post('/demo/assistant/v1/chat/completions', {
      messages: [{ role: 'user', content: '/say hi' }],
    });
    await server.stop();
  } catch {
    // The tests of starting a server report what is wrong.
  } finally {
    for (const end of endings) await end();
  }
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

async function startUnlessGiven(): Promise<PostgresServer | undefined> {
  if (process.env.TEST_DATABASE_URL) return undefined;
  try {
    return await startPostgres();
  } catch (error) {
    const reason = error instanceof Error ? error.message : error;
    throw new Error(
      `PostgreSQL could not be started: ${reason}\nSet TEST_DATABASE_URL to the address of a server, or PARLEY_TEST_SKIP_POSTGRES=1 to go without on your own machine.`,
    );
  }
}

function isAcceptance(file: string): boolean {
  return file.startsWith('test/acceptance/');
}

/**
 * The acceptance tests run on both engines, except for a file that says in a comment at its top why one is enough. What runs once runs on
 * PostgreSQL, unless its comment says why not: there an app takes 0.15 s of CPU time to start and close, and 0.7 s on PGlite.
 */
function enginesOf(file: string, engines: string[]): string[] {
  const text = readFileSync(file, 'utf8');
  if (isAcceptance(file) && !/^\/\/ One engine: /m.test(text)) return engines;
  return /^\/\/ On PGlite: /m.test(text) ? engines.slice(0, 1) : engines.slice(-1);
}

/** Runs while the first tests run, because most of it uses only one processor. */
async function check(): Promise<boolean> {
  const child = spawn('npm', ['run', '--silent', 'check'], { stdio: ['ignore', 'inherit', 'inherit'] });
  const [status, signal] = await once(child, 'exit');
  if (signal !== null) stop.abort(new Error(signal));
  console.log(status === 0 ? '✓ npm run check' : '✗ npm run check');
  return status === 0;
}
