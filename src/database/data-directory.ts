import { access, constants, mkdir, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { ConfigError } from '../config.ts';
import { errorCode, errorMessage } from '../errors.ts';

/** Makes the data directory where it is missing. One that cannot be written is found out at the start, in words that name the setting. */
export async function prepareDataDirectory(directory: string): Promise<void> {
  try {
    await makeDirectory(directory);
    // With the slash, a file in its place is told as well.
    await access(`${directory}/`, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    throw new ConfigError(`PARLEY_DATA_DIR: ${directory} is not writable (${errorMessage(error)})`, { cause: error });
  }
}

/** Those above it first, where they are missing. A recursive `mkdir` never returns where none can be made, as below /proc. */
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

/** For its owner alone, and under another name until it is filled: what fails or is killed halfway would pass for a database. */
export async function makeFilledDirectory(directory: string, fill: (draft: string) => Promise<void>): Promise<void> {
  const draft = `${directory}.draft`;
  try {
    await rm(draft, { recursive: true, force: true });
    await mkdir(draft, { mode: 0o700 });
    await fill(draft);
    await rename(draft, directory);
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}
