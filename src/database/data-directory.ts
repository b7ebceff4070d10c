import { access, constants, mkdir, open, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type Config, ConfigError } from '../config.ts';
import { errorCode, errorMessage } from '../errors.ts';

/** Creates the data directory if it is missing. If it cannot be written, the start fails here and names the setting. */
export async function prepareDataDirectory(directory: string): Promise<void> {
  try {
    await makeDirectory(directory);
    // The slash makes this fail for a file of that name too.
    await access(`${directory}/`, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    throw new ConfigError(`PARLEY_DATA_DIR: ${directory} is not writable (${errorMessage(error)})`, { cause: error });
  }
}

/** Where the secret key is kept if it is not set. */
export function secretKeyFile(config: Config): string {
  return join(config.PARLEY_DATA_DIR, 'secret.key');
}

/** Creates missing parents too. Node's recursive `mkdir` never returns where no directory can be created, such as below /proc. */
export async function makeDirectory(directory: string, mayLackParent = true): Promise<void> {
  try {
    await mkdir(directory, { mode: 0o700 });
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return;
    if (errorCode(error) !== 'ENOENT' || !mayLackParent) throw error;
    await makeDirectory(dirname(directory));
    await makeDirectory(directory, false);
  }
}

/** Creates a directory that only its owner can read, and fills it. */
export function makeFilledDirectory(directory: string, fill: (draft: string) => Promise<void>): Promise<void> {
  return makeWhole(directory, async (draft) => {
    await mkdir(draft, { mode: 0o700 });
    await fill(draft);
  });
}

/** Writes a file that only its owner can read, in place of the one that is there. */
export function replaceFile(file: string, write: (draft: string) => Promise<void>): Promise<void> {
  return makeWhole(file, async (draft) => {
    await writeFile(draft, '', { mode: 0o600 });
    await write(draft);
    // A power failure could otherwise leave an empty file in place of the one before.
    await using written = await open(draft, 'r+');
    await written.sync();
  });
}

/** Makes something under another name and renames it when it is complete: half a database or backup must not pass for a whole one. */
async function makeWhole(path: string, make: (draft: string) => Promise<void>): Promise<void> {
  const draft = `${path}.draft`;
  try {
    await rm(draft, { recursive: true, force: true });
    await make(draft);
    await rename(draft, path);
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}
