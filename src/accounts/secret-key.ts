import { randomBytes } from 'node:crypto';
import { constants, copyFile, link, open, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { sql } from 'kysely';
import { type Config, ConfigError } from '../config.ts';
import { prepareDataDirectory, secretKeyFile } from '../database/data-directory.ts';
import type { Database } from '../database/database.ts';
import { errorCode, errorMessage } from '../errors.ts';
import { parseSecretKey } from '../setting-parsers.ts';
import { createSecretBox, type SecretBox } from './secret-box.ts';

interface SecretKey {
  box: SecretBox;
  /** Where it comes from, for the message that it is not the database's. */
  origin: string;
  /** For a key in the data directory: that a person should back it up. */
  warning: string | undefined;
}

/** The key that a server starts with. Throws if it is not the one with which the database was encrypted. */
export async function loadSecretKey(config: Config, database: Database): Promise<SecretKey> {
  if ((await findSecretKey(config)) === undefined) await refuseNewKey(config, database);
  const key = await findOrCreateSecretKey(config);
  await checkSecretKey(database, key);
  return key;
}

/** A database that was encrypted needs its own key: a new file would look as if it were that. */
export async function refuseNewKey(config: Config, database: Database): Promise<void> {
  const id = await idOfKey(database);
  if (id === undefined) return;
  const absent = `it is not set, and there is no ${secretKeyFile(config)}`;
  throw new ConfigError(`PARLEY_SECRET_KEY: ${absent}, but this database was encrypted with the key ${id}. Set that key`);
}

/** The key in `PARLEY_SECRET_KEY`, or else the one in the data directory, which is created if there is none. */
export async function findOrCreateSecretKey(config: Config): Promise<SecretKey> {
  return (await findSecretKey(config)) ?? keyOfDirectory(config, await generateKey(config));
}

/** The same for a command that must not create one: undefined if there is none. */
export async function findSecretKey(config: Config): Promise<SecretKey | undefined> {
  if (config.PARLEY_SECRET_KEY !== undefined)
    return { box: createSecretBox(config.PARLEY_SECRET_KEY), origin: 'the key given', warning: undefined };
  const key = await readKey(secretKeyFile(config));
  return key && keyOfDirectory(config, key);
}

function keyOfDirectory(config: Config, key: Buffer): SecretKey {
  const file = secretKeyFile(config);
  return {
    box: createSecretBox(key),
    origin: `the key in ${file}`,
    warning: `PARLEY_SECRET_KEY is not set: stored credentials are encrypted with the key in ${file}. Back it up; they cannot be read without it.`,
  };
}

/**
 * Refuses to start with a key that cannot decrypt what is stored, instead of failing at the first use. The first start stores
 * the id of its key to compare with.
 */
export async function checkSecretKey(database: Database, key: Pick<SecretKey, 'box' | 'origin'>): Promise<void> {
  await database.db
    .insertInto('installation')
    .values({ key: 'secret_key', value: JSON.stringify({ id: key.box.keyId }) })
    .onConflict((conflict) => conflict.column('key').doNothing())
    .execute();
  await compareSecretKey(database, key);
}

/** The same for a command that must not write. */
export async function compareSecretKey(database: Database, { box, origin }: Pick<SecretKey, 'box' | 'origin'>): Promise<void> {
  const id = await idOfKey(database);
  if (id === undefined || id === box.keyId) return;
  throw new ConfigError(
    `PARLEY_SECRET_KEY: this database was encrypted with the key ${id}, but ${origin} is ${box.keyId}. Set the one it was started with`,
  );
}

/** Undefined if the first start ended before it stored the id. */
async function idOfKey(database: Database): Promise<string | undefined> {
  const { rows } = await sql<{ id: string }>`select value ->> 'id' as id from installation where key = 'secret_key'`.execute(database.db);
  return rows[0]?.id;
}

async function readKey(file: string): Promise<Buffer | undefined> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    // ENOTDIR: the data directory is a file, which `prepareDataDirectory` reports.
    if (['ENOENT', 'ENOTDIR'].includes(errorCode(error) ?? '')) return undefined;
    throw error;
  }
  try {
    return parseSecretKey(text.trim());
  } catch (error) {
    throw new ConfigError(`PARLEY_SECRET_KEY: ${file} ${errorMessage(error)}`, { cause: error });
  }
}

async function generateKey(config: Config): Promise<Buffer> {
  await prepareDataDirectory(config.PARLEY_DATA_DIR);
  const file = secretKeyFile(config);
  const key = randomBytes(32);
  const draft = `${file}.${randomBytes(6).toString('hex')}`;
  try {
    await writeFile(draft, `${key.toString('base64')}\n`, { mode: 0o600, flag: 'wx', flush: true });
    await publish(draft, file);
    return key;
  } catch (error) {
    // Another process with the same data directory was first.
    const theirs = errorCode(error) === 'EEXIST' ? await readKey(file) : undefined;
    if (theirs === undefined) throw error;
    return theirs;
  } finally {
    await rm(draft, { force: true });
  }
}

/**
 * Gives the complete draft its final name, unless that is taken. A link cannot leave half a file, whenever the process or the
 * machine stops; the copy, for file systems without links, can.
 */
async function publish(draft: string, file: string): Promise<void> {
  await link(draft, file).catch(() => copyFile(draft, file, constants.COPYFILE_EXCL));
  const directory = await open(dirname(file), 'r');
  await directory.sync().finally(() => directory.close());
}
