import { createReadStream, createWriteStream } from 'node:fs';
import { access, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { sql } from 'kysely';
import type { Config } from '../config.ts';
import { errorCode, errorMessage } from '../errors.ts';
import { parseSecretKey } from '../setting-parsers.ts';
import { makeDirectory, makeFilledDirectory, prepareDataDirectory, replaceFile, secretKeyFile } from './data-directory.ts';
import type { Database } from './database.ts';
import { lockDirectory } from './directory-lock.ts';
import { openDatabase } from './open.ts';
import { dumpPostgres, restorePostgres } from './postgres-programs.ts';
import { pack, unpack } from './tar.ts';

/**
 * Writes a backup into a folder: the database, and the secret key if it is known here. A server with the embedded database must
 * be stopped first, because only one process can open it; PostgreSQL is dumped while servers use it. Call `requireDatabase` before.
 */
export async function backup(config: Config, folder: string, check?: Check): Promise<{ hasKey: boolean }> {
  const { DATABASE_URL: url } = config;
  if (url !== undefined && check !== undefined) await checkAndClose(await openDatabase(config), check);
  const isNew = await isNewFolder(folder);
  await makeDirectory(folder);
  try {
    if (url !== undefined) await replaceFile(join(folder, 'database.dump'), (draft) => dumpPostgres(url, draft));
    else await dumpEmbedded(config.PARLEY_DATA_DIR, join(folder, 'database.tar.gz'), check);
    const key = await keyInUse(config);
    if (key === undefined) await rm(join(folder, 'secret.key'), { force: true });
    else await replaceFile(join(folder, 'secret.key'), (draft) => writeFile(draft, key));
    return { hasKey: key !== undefined };
  } catch (error) {
    // A folder without a database would look like a backup.
    if (isNew) await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

/** Whether it does not exist. Throws if it is not meant for a backup: it has files, and none of them is of an earlier one. */
async function isNewFolder(folder: string): Promise<boolean> {
  const names = await readdir(folder).catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw errorCode(error) === 'ENOTDIR' ? new Error(`${folder} is not a folder`, { cause: error }) : error;
  });
  // A disk of its own has that one.
  const others = names?.filter((name) => name !== 'lost+found') ?? [];
  if (others.length > 0 && !others.some((name) => /^database\.(dump|tar\.gz)/.test(name)))
    throw new Error(`${folder} has other files: name a folder that is new, empty or has an earlier backup`);
  return names === undefined;
}

/** Throws if the database must not be backed up with these settings. */
type Check = (database: Database) => Promise<void>;

async function checkAndClose(database: Database, check?: Check): Promise<void> {
  try {
    await check?.(database);
  } finally {
    await database.close();
  }
}

/** Refuses settings that name no database of Parley: opening it would create a new, empty one. */
export async function requireDatabase(config: Config): Promise<void> {
  const embedded = join(config.PARLEY_DATA_DIR, 'db');
  if (config.DATABASE_URL !== undefined) {
    if (!(await isInstalled(config))) throw new Error('DATABASE_URL: the database has no tables of Parley; set it as the server has it');
  } else if (!(await isThere(embedded))) {
    throw new Error(`${embedded} is not there: set PARLEY_DATA_DIR, or DATABASE_URL, as the server has it`);
  }
}

async function dumpEmbedded(dataDirectory: string, file: string, check?: Check): Promise<void> {
  const { startPGlite } = await import('./pglite.ts');
  const release = await lockDirectory(dataDirectory);
  try {
    const folder = join(dataDirectory, 'db');
    // Opening it proves that it is intact; once closed, its files do not change while they are packed.
    await checkAndClose(await startPGlite(folder), check);
    await replaceFile(file, (draft) => pipeline(pack(folder), createGzip(), createWriteStream(draft)));
  } finally {
    await release();
  }
}

/** The setting takes precedence over the file, as at a start: rotating the key in the setting leaves the file as it was. */
async function keyInUse(config: Config): Promise<string | undefined> {
  if (config.PARLEY_SECRET_KEY !== undefined) return `${config.PARLEY_SECRET_KEY.toString('base64')}\n`;
  return (await isThere(secretKeyFile(config))) ? readFile(secretKeyFile(config), 'utf8') : undefined;
}

/**
 * Restores a backup into an empty data directory or an empty PostgreSQL database. If that fails, nothing is changed. It also throws if the
 * tables were restored into a schema in which a server would not find them, and says what to do.
 */
export async function restore(config: Config, folder: string): Promise<void> {
  const file = join(folder, config.DATABASE_URL === undefined ? 'database.tar.gz' : 'database.dump');
  if (!(await isThere(file))) throw new Error(`${file} is not there: is ${folder} a backup of this kind of database?`);
  const embedded = join(config.PARLEY_DATA_DIR, 'db');
  if (config.DATABASE_URL !== undefined) {
    if (await isInstalled(config)) throw new Error('DATABASE_URL: the database is in use by Parley; restore into an empty one');
  } else if (await isThere(embedded)) {
    throw new Error(`${embedded} already exists; restore into an empty PARLEY_DATA_DIR`);
  }
  // The key first: if the process is killed here, there is no database without its key.
  const isNewKey = await restoreKey(config, join(folder, 'secret.key'));
  try {
    if (config.DATABASE_URL !== undefined) await restorePostgres(config.DATABASE_URL, file);
    else await restoreEmbedded(config.PARLEY_DATA_DIR, embedded, file);
  } catch (error) {
    // The next backup to be restored may have another key.
    if (isNewKey) await rm(secretKeyFile(config), { force: true });
    throw error;
  }
  if (config.DATABASE_URL !== undefined && !(await isInstalled(config))) throw await namingSchema(config);
}

/** Returns whether it wrote the key. A key that already exists is never replaced: it may be the only one for another database. */
async function restoreKey(config: Config, kept: string): Promise<boolean> {
  if (!(await isThere(kept))) return false;
  const key = await readFile(kept, 'utf8');
  const inUse = await keyInUse(config);
  if (inUse === undefined) {
    await prepareDataDirectory(config.PARLEY_DATA_DIR);
    await replaceFile(secretKeyFile(config), (draft) => writeFile(draft, key));
    return true;
  }
  if (!parseSecretKey(inUse.trim()).equals(parseSecretKey(key.trim()))) {
    const place = config.PARLEY_SECRET_KEY === undefined ? secretKeyFile(config) : 'PARLEY_SECRET_KEY';
    throw new Error(`${place}: is another key than that of the backup, ${kept}; nothing was changed`);
  }
  return false;
}

/** pg_restore puts tables into the schema they were dumped from. A server that does not find them there would create new, empty ones. */
async function namingSchema(config: Config): Promise<Error> {
  const database = await openDatabase(config);
  try {
    const { rows } = await sql<{ role: string; schema: string }>`
      select quote_ident(current_user) as role, quote_ident(schemaname) as schema from pg_tables where tablename = 'migrations'`.execute(
      database.db,
    );
    const { role = '', schema = '' } = rows[0] ?? {};
    return new Error(`DATABASE_URL: restored into the schema ${schema}. Before the start: ALTER ROLE ${role} SET search_path = ${schema}`);
  } finally {
    await database.close();
  }
}

async function restoreEmbedded(dataDirectory: string, embedded: string, file: string): Promise<void> {
  const { startPGlite } = await import('./pglite.ts');
  await prepareDataDirectory(dataDirectory);
  const release = await lockDirectory(dataDirectory);
  try {
    await makeFilledDirectory(embedded, async (draft) => {
      await pipeline(createReadStream(file), createGunzip(), (pieces) => unpack(pieces, draft)).catch((error: unknown) => {
        // The disk failed, not the backup.
        if (error instanceof Error && 'syscall' in error) throw error;
        throw new Error(`${file} is damaged (${errorMessage(error)})`, { cause: error });
      });
      await (await startPGlite(draft)).close();
    });
  } finally {
    await release();
  }
}

/** Whether a server has been started on this PostgreSQL database. */
export async function isInstalled(config: Config): Promise<boolean> {
  const database = await openDatabase(config);
  try {
    const { rows } = await sql`select 1 where to_regclass('migrations') is not null`.execute(database.db);
    return rows.length > 0;
  } finally {
    await database.close();
  }
}

async function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
