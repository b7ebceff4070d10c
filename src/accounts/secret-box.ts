import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto';
import { constants, copyFile, link, open, readFile, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { sql } from 'kysely';
import { type Config, ConfigError } from '../config.ts';
import { prepareDataDirectory } from '../database/data-directory.ts';
import type { Database } from '../database/database.ts';
import { errorCode } from '../errors.ts';

/**
 * Encrypts what is stored but must be read again: model credentials, webhook secrets, signing keys, kept answers.
 * The context (such as `org 7`) is authenticated with it, so that a value moved to another org does not open.
 */
export interface SecretBox {
  readonly keyId: string;
  seal(plaintext: string, context: string): string;
  /** Throws when the value was sealed with another key or context, or was changed. */
  open(sealed: string, context: string): string;
  /** Another secret that only this key gives, such as the one that signs cookies. */
  derive(purpose: string): string;
}

/** The context of what an org stores. */
export function contextOfOrg(orgId: number): string {
  return `org ${orgId}`;
}

export function createSecretBox(key: Buffer): SecretBox {
  const keyId = createHash('sha256').update('parley secret key id').update(key).digest('hex').slice(0, 8);
  return {
    keyId,
    seal(plaintext, context) {
      const nonce = randomBytes(12);
      const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(context));
      const body = Buffer.concat([cipher.update(plaintext, 'utf8'), cipher.final()]);
      return `v1.${keyId}.${Buffer.concat([nonce, cipher.getAuthTag(), body]).toString('base64url')}`;
    },
    open(sealed, context) {
      const [version, sealedWith, payload] = sealed.split('.');
      if (version !== 'v1' || payload === undefined) throw new Error('not a sealed value');
      if (sealedWith !== keyId) throw new Error(`sealed with the secret key ${sealedWith}, but the key in use is ${keyId}`);
      const bytes = Buffer.from(payload, 'base64url');
      const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12), { authTagLength: 16 })
        .setAAD(Buffer.from(context))
        .setAuthTag(bytes.subarray(12, 28));
      return decipher.update(bytes.subarray(28), undefined, 'utf8') + decipher.final('utf8');
    },
    derive(purpose) {
      return Buffer.from(hkdfSync('sha256', key, Buffer.alloc(0), `parley ${purpose}`, 32)).toString('base64url');
    },
  };
}

/** The key of `PARLEY_SECRET_KEY`, or one kept in the data directory: then `warning` says what a person should do about it. */
export async function loadSecretKey(config: Config): Promise<{ box: SecretBox; origin: string; warning: string | undefined }> {
  if (config.PARLEY_SECRET_KEY !== undefined)
    return { box: createSecretBox(config.PARLEY_SECRET_KEY), origin: 'the key given', warning: undefined };
  const file = join(config.PARLEY_DATA_DIR, 'secret.key');
  const key = (await readKey(file)) ?? (await generateKey(config.PARLEY_DATA_DIR, file));
  return {
    box: createSecretBox(key),
    origin: `the key in ${file}`,
    warning: `PARLEY_SECRET_KEY is not set: stored credentials are encrypted with the key in ${file}. Back it up; they cannot be read without it.`,
  };
}

/** Refuses a start with a key that cannot open what is stored, before anything fails on it. */
export async function checkSecretKey(database: Database, box: SecretBox, origin = 'the key given'): Promise<void> {
  await database.db
    .insertInto('installation')
    .values({ key: 'secret_key', value: JSON.stringify({ id: box.keyId }) })
    .onConflict((conflict) => conflict.column('key').doNothing())
    .execute();
  await compareSecretKey(database, box, origin);
}

/** The same for one who only looks. */
export async function compareSecretKey(database: Database, box: SecretBox, origin: string): Promise<void> {
  const { rows } = await sql<{ id: string }>`select value ->> 'id' as id from installation where key = 'secret_key'`.execute(database.db);
  const id = rows[0]?.id;
  // None yet: a first start that did not come this far.
  if (id === undefined || id === box.keyId) return;
  throw new ConfigError(
    `PARLEY_SECRET_KEY: this database was encrypted with the key ${id}, but ${origin} is ${box.keyId}. Set the one it was started with`,
  );
}

async function readKey(file: string): Promise<Buffer | undefined> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    // ENOTDIR: the data directory is a file, which is told when it is prepared.
    if (['ENOENT', 'ENOTDIR'].includes(errorCode(error) ?? '')) return undefined;
    throw error;
  }
  const key = Buffer.from(text.trim(), 'base64');
  if (key.length !== 32) throw new ConfigError(`PARLEY_SECRET_KEY: ${file} does not hold 32 bytes as Base64`);
  return key;
}

async function generateKey(directory: string, file: string): Promise<Buffer> {
  await prepareDataDirectory(directory);
  const key = randomBytes(32);
  const draft = `${file}.${randomBytes(6).toString('hex')}`;
  try {
    await writeThrough(draft, `${key.toString('base64')}\n`);
    await publish(draft, file);
    return key;
  } catch (error) {
    // Another process of this directory was first.
    const theirs = errorCode(error) === 'EEXIST' ? await readKey(file) : undefined;
    if (theirs === undefined) throw error;
    return theirs;
  } finally {
    await rm(draft, { force: true });
  }
}

async function writeThrough(file: string, text: string): Promise<void> {
  const handle = await open(file, 'wx', 0o600);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
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
