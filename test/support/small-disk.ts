// A disk that a test can fill up or make read-only: a tmpfs of a few megabytes, where mounting one is permitted.
import { execFileSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmdirSync, rmSync, statfsSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Owner } from './app.ts';
import { endWithUs } from './end-with-us.ts';

export interface SmallDisk {
  path: string;
  /** Fills the disk until only this many bytes are free. */
  fill(leave: number): void;
  /** Removes what `fill` wrote. */
  empty(): void;
  makeReadOnly(): void;
}

/** The reason why a test cannot mount one here, for the option `skip`; false if it can. */
export const noSmallDisk: string | false = whyNot();

export function mountSmallDisk(owner: Owner, megabytes: number): SmallDisk {
  const path = mkdtempSync(join(tmpdir(), 'parley-disk-'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'parley-test', path]);
  const unmount = () => {
    // Lazily (-l), because a server that is being killed may still have a file open.
    execFileSync('umount', ['-l', path]);
    rmdirSync(path);
  };
  const forget = endWithUs(unmount);
  owner.after(async () => {
    forget();
    unmount();
  });
  const ballast = join(path, 'ballast');
  return {
    path,
    fill(leave) {
      const { bavail, bsize } = statfsSync(path);
      const file = openSync(ballast, 'a');
      const piece = Buffer.alloc(64 * 1024, 1);
      for (let left = bavail * bsize - leave; left > 0; left -= piece.length)
        writeSync(file, piece.subarray(0, Math.min(left, piece.length)));
      closeSync(file);
    },
    empty: () => rmSync(ballast, { force: true }),
    makeReadOnly: () => execFileSync('mount', ['-o', 'remount,ro', path]),
  };
}

function whyNot(): string | false {
  if (process.platform !== 'linux') return 'a small disk is mounted as tmpfs, on Linux only';
  if (process.getuid?.() !== 0) return 'only root may mount a small disk';
  const probe = mkdtempSync(join(tmpdir(), 'parley-disk-'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'parley-test', probe], { stdio: 'pipe' });
    execFileSync('umount', [probe]);
    return false;
  } catch (error) {
    return `mounting is not permitted here: ${error instanceof Error ? error.message.trim() : error}`;
  } finally {
    rmdirSync(probe);
  }
}
