import { statfsSync } from 'node:fs';

/**
 * Kept free for the embedded engine, which cannot be asked to stop writing: at the end of the disk it tries forever to
 * begin another segment of its log (16 MiB) and answers nobody any more, measured.
 */
const reserveBytes = 48 * 1024 * 1024;
const lookEveryMs = 200;

/** A check to make before every write; it throws what PostgreSQL says of a full disk. */
export function watchDiskSpace(directory: string): () => void {
  let lookedAt = Number.NEGATIVE_INFINITY;
  let isShort = false;
  return () => {
    const now = performance.now();
    if (now - lookedAt > lookEveryMs) {
      lookedAt = now;
      const { bavail, bsize } = statfsSync(directory);
      isShort = bavail * bsize < reserveBytes;
    }
    if (isShort)
      throw Object.assign(new Error(`no space left on the disk of ${directory}: ${reserveBytes >> 20} MiB must be free`), {
        code: '53100',
      });
  };
}
