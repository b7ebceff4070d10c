import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { openAsBlob } from 'node:fs';
import { access, copyFile, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Config, environmentWith } from '../config.ts';

/**
 * Writes everything into a folder: the database, and the key that opens its secrets unless only the server has it. The
 * embedded database is one process's own, so the server must be stopped; PostgreSQL is dumped while it serves.
 */
export async function backup(config: Config, folder: string): Promise<{ hasKey: boolean }> {
  const embedded = join(config.PARLEY_DATA_DIR, 'db');
  if (config.DATABASE_URL === undefined && !(await isThere(embedded)))
    throw new Error(`${embedded} is not there: set PARLEY_DATA_DIR, or DATABASE_URL, as the server has it`);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  if (config.DATABASE_URL !== undefined) {
    const { url, environment } = withoutPassword(config.DATABASE_URL);
    await replaceFile(join(folder, 'database.dump'), (draft) => run('pg_dump', ['--format=custom', `--file=${draft}`, url], environment));
  } else {
    const { lockDirectory } = await import('./directory-lock.ts');
    const { PGlite } = await import('@electric-sql/pglite');
    const release = await lockDirectory(config.PARLEY_DATA_DIR);
    try {
      const pglite = await PGlite.create({ dataDir: embedded });
      const dump = await pglite.dumpDataDir('gzip');
      await replaceFile(join(folder, 'database.tar.gz'), async (draft) => writeFile(draft, Buffer.from(await dump.arrayBuffer())));
      await pglite.close();
    } finally {
      await release();
    }
  }
  const key = await keyInUse(config);
  if (key === undefined) await rm(join(folder, 'secret.key'), { force: true });
  else await replaceFile(join(folder, 'secret.key'), (draft) => writeFile(draft, key));
  return { hasKey: key !== undefined };
}

/** The setting comes before the file, which a rotation leaves as it was. */
async function keyInUse(config: Config): Promise<string | undefined> {
  if (config.PARLEY_SECRET_KEY !== undefined) return `${config.PARLEY_SECRET_KEY.toString('base64')}\n`;
  const file = join(config.PARLEY_DATA_DIR, 'secret.key');
  return (await isThere(file)) ? readFile(file, 'utf8') : undefined;
}

/** For its owner alone. A backup that fails halfway leaves the one before it. */
async function replaceFile(file: string, write: (draft: string) => Promise<void>): Promise<void> {
  const draft = `${file}.draft`;
  try {
    await rm(draft, { force: true });
    await writeFile(draft, '', { mode: 0o600 });
    await write(draft);
    await rename(draft, file);
  } finally {
    await rm(draft, { force: true });
  }
}

/** The way back, into an empty data directory or an empty PostgreSQL database; all of it or nothing. */
export async function restore(config: Config, folder: string): Promise<void> {
  const file = join(folder, config.DATABASE_URL === undefined ? 'database.tar.gz' : 'database.dump');
  if (!(await isThere(file))) throw new Error(`${file} is not there: is ${folder} a backup of this kind of database?`);
  if (config.DATABASE_URL !== undefined) {
    const options = ['--no-owner', '--exit-on-error', '--single-transaction'];
    const { url, environment } = withoutPassword(config.DATABASE_URL);
    await run('pg_restore', [...options, `--dbname=${url}`, file], environment).catch((error: unknown) => {
      throw new Error('pg_restore failed and nothing was changed; restore into an empty database', { cause: error });
    });
    await mkdir(config.PARLEY_DATA_DIR, { recursive: true, mode: 0o700 });
  } else {
    const database = join(config.PARLEY_DATA_DIR, 'db');
    if (await isThere(database)) throw new Error(`${database} already exists; restore into an empty PARLEY_DATA_DIR`);
    const { PGlite } = await import('@electric-sql/pglite');
    await mkdir(config.PARLEY_DATA_DIR, { recursive: true, mode: 0o700 });
    const pglite = await PGlite.create({ dataDir: database, loadDataDir: await openAsBlob(file) });
    await pglite.close();
  }
  const key = join(folder, 'secret.key');
  if (await isThere(key)) await copyFile(key, join(config.PARLEY_DATA_DIR, 'secret.key'));
}

async function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

/** Arguments are in the list of processes for all to see: the password goes by the environment, and the URL keeps every other option. */
function withoutPassword(databaseUrl: string): { url: string; environment: NodeJS.ProcessEnv } {
  const url = new URL(databaseUrl);
  // As `pg` reads it: one among the options comes before the one beside the user.
  const password = url.searchParams.get('password') || decodeURIComponent(url.password);
  url.password = '';
  if (url.searchParams.has('password')) {
    url.searchParams.delete('password');
    // libpq takes a plus for a plus.
    url.search = url.search.replaceAll('+', '%20');
  }
  return { url: url.href, environment: password === '' ? {} : { PGPASSWORD: password } };
}

async function run(program: string, args: string[], environment: NodeJS.ProcessEnv): Promise<void> {
  const child = spawn(program, args, { stdio: ['ignore', 'inherit', 'inherit'], env: environmentWith(environment) });
  const [code] = await once(child, 'exit').catch((error: unknown) => {
    throw new Error(`${program} is not installed; it comes with the PostgreSQL client`, { cause: error });
  });
  if (code !== 0) throw new Error(`${program} failed`);
}
