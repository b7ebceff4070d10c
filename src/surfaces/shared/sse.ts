import { once } from 'node:events';
import type { FastifyReply } from 'fastify';

const heartbeatMs = 15_000;
/** A reader that takes nothing for this long is cut; its cursor is with the client. */
const stalledMs = 20_000;

/**
 * Streams text as Server-Sent Events. The source is only asked for more when the socket has taken what came before, so
 * that a slow reader holds one batch and no queue; comments keep an idle stream alive. Returns when the source or the
 * client is done; the source is closed either way.
 */
export async function sendEvents(reply: FastifyReply, source: AsyncGenerator<string>, abort: AbortController): Promise<void> {
  const socket = reply.raw;
  reply.hijack();
  for (const [name, value] of Object.entries(reply.getHeaders())) if (value !== undefined) socket.setHeader(name, value);
  socket.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-cache, no-transform',
    'x-accel-buffering': 'no',
  });
  socket.flushHeaders();
  const heartbeat = setInterval(() => {
    if (socket.writableLength === 0) socket.write(': keep-alive\n\n');
  }, heartbeatMs);
  const closed = () => abort.abort();
  socket.once('close', closed);
  try {
    for await (const text of source) {
      if (socket.destroyed) break;
      if (text !== '' && !socket.write(text)) await drained(reply, abort.signal);
    }
  } finally {
    clearInterval(heartbeat);
    socket.off('close', closed);
    socket.end();
  }
}

async function drained(reply: FastifyReply, signal: AbortSignal): Promise<void> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(stalledMs)]);
  try {
    await once(reply.raw, 'drain', { signal: limit });
  } catch {
    reply.raw.destroy();
  }
}
