import { once } from 'node:events';
import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { FastifyReply } from 'fastify';
import { ServiceError } from '../../../errors.ts';
import { isUnexpected } from '../errors.ts';
import type { ClosingReason, OpenStreams } from './open-streams.ts';

/** How long the response's head waits for the first text, to go out with it in one packet. */
const headWaitMs = 20;

/** How much of a long text is handed to the socket at a time: it keeps an encoded copy of that, for each of perhaps thousands of readers. */
export const sliceCharacters = 64 * 1024;

const otherLineBreaks = [
  ['\u0085', '\\u0085'],
  ['\u2028', '\\u2028'],
  ['\u2029', '\\u2029'],
] as const;

/**
 * Streams text as Server-Sent Events. The source is read only after the socket has taken what was written, so that of a slow
 * client one batch is held in memory and no queue grows. Returns when the source ends, the client leaves or the server ends the
 * stream; in the latter two cases the signal is aborted, and for the server `closingFrame` makes the last frame.
 */
export async function sendEvents(
  reply: FastifyReply,
  source: (signal: AbortSignal) => AsyncGenerator<string>,
  closingFrame: (reason: ClosingReason) => string = (reason) => `: ${reason}\n\n`,
): Promise<void> {
  const { streams } = reply.server;
  const response = beginEvents(reply);
  const headTimer = setTimeout(() => response.flushHeaders(), headWaitMs);
  const abort = new AbortController();
  let lastFrame = '';
  const end = (reason: ClosingReason) => {
    lastFrame = closingFrame(reason);
    abort.abort();
  };
  const unregister = streams.add({ response, end }, reply.request);
  const onClose = () => abort.abort();
  response.once('close', onClose);
  // Its client has left while it was being opened, and `close` does not come again.
  if (response.destroyed) abort.abort();
  try {
    for await (const text of source(abort.signal)) {
      if (response.destroyed) break;
      if (text === '') continue;
      clearTimeout(headTimer);
      const rest = text.length <= sliceCharacters ? text : await writeBeginning(response, text, abort.signal, streams);
      if (response.destroyed) break;
      const isTaken = response.write(escapeLineBreaks(rest));
      // Only after the write: the last frame says how to go on after all that the source has made.
      if (abort.signal.aborted) break;
      if (!isTaken) await drained(response, abort.signal, streams);
    }
  } catch (error) {
    // The status has been sent, so a failure can only be told in a frame. A source throws a ServiceError if the session is gone.
    if (isUnexpected(error)) reply.log.error({ err: error, request_id: reply.request.id }, 'event stream failed');
    lastFrame = closingFrame(error instanceof ServiceError ? 'session_deleted' : 'database_unavailable');
  } finally {
    clearTimeout(headTimer);
    unregister();
    response.off('close', onClose);
    response.end(escapeLineBreaks(lastFrame));
  }
}

/**
 * Escapes the line breaks that JSON does not. Python's `splitlines`, by which httpx and requests find the lines of a stream, also
 * breaks at these, in the middle of the data.
 */
export function escapeLineBreaks(frames: string): string {
  // Looking for each first takes a tenth of the time of a regular expression.
  let text = frames;
  for (const [character, escaped] of otherLineBreaks) if (text.includes(character)) text = text.replaceAll(character, escaped);
  return text;
}

/** Takes the response over from Fastify. Its head goes out with the first write, or when it is flushed. */
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

/**
 * Writes a long text but for its last slice, which it returns; stops early if the response has ended. The next slice is written in the
 * same tick in which the socket has taken the last one, so that no heartbeat comes between them.
 */
export async function writeBeginning(
  response: ServerResponse,
  text: string,
  signal: AbortSignal | undefined,
  streams: OpenStreams,
): Promise<string> {
  let start = 0;
  while (text.length - start > sliceCharacters && !response.destroyed && !response.writableEnded) {
    const end = start + sliceCharacters;
    // The halves of a surrogate pair cannot be encoded apart.
    const isPair = (text.codePointAt(end - 1) ?? 0) > 0xffff;
    const slice = text.slice(start, isPair ? end - 1 : end);
    start += slice.length;
    if (response.write(escapeLineBreaks(slice))) continue;
    // What a source has made after it was stopped, such as the end of its answer, is waited for as any.
    await drained(response, signal?.aborted ? undefined : signal, streams);
  }
  return text.slice(start);
}

/** Waits until the socket has taken what was written. Disconnects a client that reads nothing for too long. */
export async function drained(response: ServerResponse, signal: AbortSignal | undefined, streams: OpenStreams): Promise<void> {
  // A closed connection emits no `drain`.
  if (response.destroyed) return;
  const stalled = AbortSignal.timeout(streams.stallMs);
  const closed = new AbortController();
  const onClose = () => closed.abort();
  response.once('close', onClose);
  try {
    await once(response, 'drain', { signal: AbortSignal.any([stalled, closed.signal, ...(signal === undefined ? [] : [signal])]) });
  } catch {
    if (stalled.aborted) streams.cut(response.socket);
    response.destroy();
  } finally {
    response.off('close', onClose);
  }
}
