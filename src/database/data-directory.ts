import { access, constants, mkdir } from 'node:fs/promises';
import { ConfigError } from '../config.ts';
import { errorMessage } from '../errors.ts';

/** Makes the data directory where it is missing. One that cannot be written is found out at the start, in words that name the setting. */
export async function prepareDataDirectory(directory: string): Promise<void> {
  try {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    await access(directory, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    throw new ConfigError(`PARLEY_DATA_DIR: ${directory} is not writable (${errorMessage(error)})`, { cause: error });
  }
}
