import type { FastifyReply } from 'fastify';

/** Aborted when the client disconnects, or if it has already: a response that is closed does not emit `close` again. */
export function signalOfLeaving({ raw }: FastifyReply): AbortSignal {
  const left = new AbortController();
  if (raw.destroyed) left.abort();
  else raw.once('close', () => left.abort());
  return left.signal;
}
