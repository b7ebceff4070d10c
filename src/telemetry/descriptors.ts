import { open } from 'node:fs/promises';
import { devNull } from 'node:os';
import { errorCode } from '../errors.ts';
import type { Logger } from './logger.ts';

/** Without a free file descriptor the system drops new connections and tells nobody: the only way to notice is to try to open something. */
export function watchDescriptors(logger: Logger, everyMs = 5_000): void {
  setInterval(async () => {
    try {
      await (await open(devNull)).close();
    } catch (error) {
      if (['EMFILE', 'ENFILE'].includes(errorCode(error) ?? ''))
        logger.warn({ err: error }, 'no file descriptor is free, connections are dropped: raise the limit (ulimit -n)');
    }
  }, everyMs).unref();
}
