import type { FastifyReply } from 'fastify';

/** Shared by all: without a reason, `abort` would make an error with a stack for every response, since each closes in the end. */
const clientLeft = new DOMException('The client has disconnected', 'AbortError');

/** Aborted when the client disconnects, or if it has already: a response that is closed does not emit `close` again. */
export function signalOfLeaving({ raw }: FastifyReply): AbortSignal {
  const left = new AbortController();
  if (raw.destroyed) left.abort(clientLeft);
  else raw.once('close', () => left.abort(clientLeft));
  return left.signal;
}
