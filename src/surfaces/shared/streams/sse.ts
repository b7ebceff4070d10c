import { once } from 'node:events';
import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { FastifyReply } from 'fastify';
import { ServiceError } from '../../../errors.ts';
import { isUnexpected } from '../errors.ts';
import type { ClosingReason, OpenStreams } from './open-streams.ts';

/** The head goes out with the first words when these come at once: one packet instead of two. */
const headWaitMs = 20;

/**
 * Streams text as Server-Sent Events. The source is only asked for more when the socket has taken what came before, so
 * that a slow reader holds one batch and no queue; comments keep an idle stream alive. Returns when the source or the
 * client is done; the source is closed either way, and its signal aborted when it is not to go on. `farewell` is the last frame
 * when the server ends the stream.
 */
export async function sendEvents(
  reply: FastifyReply,
  source: (signal: AbortSignal) => AsyncGenerator<string>,
  farewell: (reason: ClosingReason) => string = (reason) => `: ${reason}\n\n`,
): Promise<void> {
  const { streams } = reply.server;
  const response = beginEvents(reply);
  const opening = setTimeout(() => response.flushHeaders(), headWaitMs);
  const abort = new AbortController();
  let last = '';
  const end = (reason: ClosingReason) => {
    last = farewell(reason);
    abort.abort();
  };
  const leave = streams.add({ response, end }, reply.request);
  const closed = () => abort.abort();
  response.once('close', closed);
  try {
    for await (const text of source(abort.signal)) {
      if (response.destroyed || abort.signal.aborted) break;
      if (text === '') continue;
      clearTimeout(opening);
      if (!response.write(text)) await drained(response, abort.signal, streams);
    }
  } catch (error) {
    // The status has been sent, so that a failure can only be told in a frame. What is refused by now is gone.
    if (isUnexpected(error)) reply.log.error({ err: error, request_id: reply.request.id }, 'event stream failed');
    last = farewell(error instanceof ServiceError ? 'session_deleted' : 'database_unavailable');
  } finally {
    clearTimeout(opening);
    leave();
    response.off('close', closed);
    response.end(last);
  }
}

/** Takes the response from Fastify. Its head goes out with what is written first, or when it is flushed. */
export function beginEvents(reply: FastifyReply): ServerResponse {
  const response = reply.raw;
  reply.hijack();
  reply.request.place?.leave();
  const headers: OutgoingHttpHeaders = {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-cache, no-transform',
    'x-accel-buffering': 'no',
  };
  for (const [name, value] of Object.entries(reply.getHeaders())) if (value !== undefined) headers[name] ??= value;
  response.writeHead(200, headers);
  return response;
}

/** A reader that takes nothing for too long is cut; its cursor is with the client. */
export async function drained(response: ServerResponse, signal: AbortSignal | undefined, streams: OpenStreams): Promise<void> {
  // Cut before, or left by its client: nothing will drain.
  if (response.destroyed) return;
  const patience = AbortSignal.timeout(streams.stalledMs);
  try {
    await once(response, 'drain', { signal: signal === undefined ? patience : AbortSignal.any([signal, patience]) });
  } catch {
    if (patience.aborted) {
      streams.cut += 1;
      // With a reset: closed in good order, the kernel would keep some MiB for a reader that does not read, for minutes.
      response.socket?.resetAndDestroy();
    }
    response.destroy();
  }
}
