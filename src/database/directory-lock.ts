import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** PGlite does not lock its directory, and two openers destroy each other's data: so a file with our pid does. */
export async function lockDirectory(directory: string): Promise<() => Promise<void>> {
  const file = join(directory, 'parley.pid');
  for (;;) {
    try {
      await writeFile(file, `${process.pid}\n`, { flag: 'wx' });
      return () => rm(file, { force: true });
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
      const owner = await readOwner(file);
      if (owner !== undefined && (await isRunning(owner))) {
        throw new Error(
          `the data directory ${directory} is in use by process ${owner}; stop it, or set PARLEY_DATA_DIR to another directory`,
        );
      }
      await rm(file, { force: true });
    }
  }
}

async function readOwner(file: string): Promise<number | undefined> {
  const owner = Number(await readFile(file, 'utf8').catch(() => ''));
  return Number.isInteger(owner) && owner > 0 ? owner : undefined;
}

/** A pid may have been given to another program since; on Linux its command line tells. */
async function isRunning(pid: number): Promise<boolean> {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
  const commandLine = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => 'node');
  return commandLine.includes('node');
}
