import { once } from 'node:events';
import { createServer } from 'node:net';

/** For a program that must be given a port, because it cannot choose a free one itself or must keep it over restarts. */
export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const address = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no free port');
  return address.port;
}
