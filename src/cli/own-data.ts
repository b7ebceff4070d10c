import { rotateSecretKey } from '../accounts/rotate-secret-key.ts';
import { createSecretBox } from '../accounts/secret-box.ts';
import { compareSecretKey, findSecretKey } from '../accounts/secret-key.ts';
import { type Config, loadConfig } from '../config.ts';
import { backup, requireDatabase, restore } from '../database/backup.ts';
import type { Database } from '../database/database.ts';
import { openDatabase } from '../database/open.ts';
import { errorMessage } from '../errors.ts';
import { parseSecretKey } from '../setting-parsers.ts';

/** Returns whether the backup contains the secret key. */
export async function backUpTo(folder: string): Promise<{ hasKey: boolean }> {
  const config = loadConfig();
  await requireDatabase(config);
  return backup(config, folder, (database) => checkKeyInUse(config, database));
}

/** Refuses a backup with a key that is not the database's: no server could start on what is restored from it. */
async function checkKeyInUse(config: Config, database: Database): Promise<void> {
  const key = await findSecretKey(config);
  if (key !== undefined) await compareSecretKey(database, key);
}

export async function restoreFrom(folder: string): Promise<void> {
  await restore(loadConfig(), folder);
}

/** Returns how many secrets were encrypted anew, with the key that `readKey` returns. */
export async function rotateSecretKeyTo(readKey: () => Promise<string>): Promise<{ resealed: number }> {
  const config = loadConfig();
  const next = createSecretBox(parseNewKey(await readKey()));
  await requireDatabase(config);
  const key = await findSecretKey(config);
  if (key === undefined) throw new Error('PARLEY_SECRET_KEY is not set, and PARLEY_DATA_DIR has no secret.key');
  const database = await openDatabase(config);
  try {
    return await rotateSecretKey(database, key.box, next);
  } finally {
    await database.close();
  }
}

function parseNewKey(given: string): Buffer {
  try {
    return parseSecretKey(given);
  } catch (error) {
    throw new Error(`the new key ${errorMessage(error)}`, { cause: error });
  }
}
