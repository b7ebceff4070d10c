import { statfsSync } from 'node:fs';

/**
 * Space that must stay free on the embedded engine's disk. When the disk is full, the engine tries forever to begin another
 * segment of its log (16 MiB) and no longer answers, as measured.
 */
const reserveBytes = 48 * 1024 * 1024;
const checkEveryMs = 200;

/** Returns a check to call before every write. It throws the SQLSTATE with which PostgreSQL reports a full disk. */
export function watchDiskSpace(directory: string): () => void {
  let checkedAt = Number.NEGATIVE_INFINITY;
  let isShort = false;
  return () => {
    const now = performance.now();
    if (now - checkedAt > checkEveryMs) {
      checkedAt = now;
      const { bavail, bsize } = statfsSync(directory);
      isShort = bavail * bsize < reserveBytes;
    }
    if (isShort)
      throw Object.assign(new Error(`no space left on the disk of ${directory}: ${reserveBytes >> 20} MiB must be free`), {
        code: '53100',
      });
  };
}
