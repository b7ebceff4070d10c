import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { FastifyReply } from 'fastify';
import { bearerOf, principalOf } from './authenticate.ts';
import type { ClosingReason } from './open-streams.ts';

/**
 * Streams text as Server-Sent Events. The source is only asked for more when the socket has taken what came before, so
 * that a slow reader holds one batch and no queue; comments keep an idle stream alive. Returns when the source or the
 * client is done; the source is closed either way. `farewell` is the last frame when the server ends the stream.
 */
export async function sendEvents(
  reply: FastifyReply,
  source: AsyncGenerator<string>,
  abort: AbortController,
  farewell: (reason: ClosingReason) => string = (reason) => `: ${reason}\n\n`,
): Promise<void> {
  const response = reply.raw;
  reply.hijack();
  for (const [name, value] of Object.entries(reply.getHeaders())) if (value !== undefined) response.setHeader(name, value);
  response.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-cache, no-transform',
    'x-accel-buffering': 'no',
  });
  response.flushHeaders();
  const { request } = reply;
  let last = '';
  const leave = reply.server.streams.add(response, principalOf(request), bearerOf(request), (reason) => {
    last = farewell(reason);
    abort.abort();
  });
  try {
    await pump(response, source, abort, reply.server.streams.stalledMs);
  } finally {
    leave();
    response.end(last);
  }
}

async function pump(response: ServerResponse, source: AsyncGenerator<string>, abort: AbortController, stalledMs: number): Promise<void> {
  const closed = () => abort.abort();
  response.once('close', closed);
  try {
    for await (const text of source) {
      if (response.destroyed || abort.signal.aborted) break;
      if (text !== '' && !response.write(text)) await drained(response, abort.signal, stalledMs);
    }
  } finally {
    response.off('close', closed);
  }
}

/** A reader that takes nothing for too long is cut; its cursor is with the client. */
async function drained(response: ServerResponse, signal: AbortSignal, stalledMs: number): Promise<void> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(stalledMs)]);
  try {
    await once(response, 'drain', { signal: limit });
  } catch {
    response.destroy();
  }
}
