import { once } from 'node:events';
import { createServer } from 'node:net';
import { type Config, ConfigError } from '../config.ts';
import { errorCode, errorMessage } from '../errors.ts';

/**
 * Called before anything is written: a first start creates keys that are printed only once, so it must not fail after that. Not in a
 * worker: there it would be given connections of clients, which the primary process accepts for whoever listens, and answer none.
 */
export async function tryAddress(config: Config): Promise<void> {
  const probe = createServer().listen(config.PORT, config.HOST);
  await once(probe, 'listening').catch((error: unknown) => {
    throw unusableAddress(error, config);
  });
  await once(probe.close(), 'close');
}

/** Says which setting an address that cannot be listened on comes from. */
export function unusableAddress(error: unknown, { HOST, PORT }: Config): Error {
  const code = errorCode(error);
  if (code === 'EADDRINUSE' || code === 'EACCES')
    return new Error(`PORT: ${PORT} is not available (${errorMessage(error)})`, { cause: error });
  return new ConfigError(`HOST: cannot listen on ${HOST} (${errorMessage(error)})`, { cause: error });
}
