import { rotateSecretKey } from '../accounts/rotate-secret-key.ts';
import { compareSecretKey, createSecretBox, loadSecretKey } from '../accounts/secret-box.ts';
import { type Config, loadConfig } from '../config.ts';
import { backup, keyInUse, requireDatabase, restore } from '../database/backup.ts';
import type { Database } from '../database/database.ts';
import { openDatabase } from '../database/open.ts';
import { parseSecretKey } from '../setting-parsers.ts';

/** Gives whether the secret key is in it too. */
export async function backUpTo(folder: string): Promise<{ hasKey: boolean }> {
  const config = loadConfig();
  return backup(config, folder, { check: (database) => checkKeyInUse(config, database) });
}

/** With another key than that of the database nobody could start on what is restored, and would learn of it only then. */
async function checkKeyInUse(config: Config, database: Database): Promise<void> {
  if ((await keyInUse(config)) === undefined) return;
  const { box, origin } = await loadSecretKey(config);
  await compareSecretKey(database, box, origin);
}

export async function restoreFrom(folder: string): Promise<void> {
  await restore(loadConfig(), folder);
}

/** Gives how many secrets are now encrypted with the key that is read. */
export async function rotateSecretKeyTo(readKey: () => Promise<string>): Promise<{ resealed: number }> {
  const config = loadConfig();
  const next = createSecretBox(parseSecretKey(await readKey()));
  await requireDatabase(config);
  if ((await keyInUse(config)) === undefined) throw new Error('PARLEY_SECRET_KEY is not set, and PARLEY_DATA_DIR has no secret.key');
  const { box } = await loadSecretKey(config);
  const database = await openDatabase(config);
  try {
    return await rotateSecretKey(database, box, next);
  } finally {
    await database.close();
  }
}
