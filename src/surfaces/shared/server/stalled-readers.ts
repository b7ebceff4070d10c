import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { OpenStreams } from '../streams/open-streams.ts';
import { isKeptForNext } from './newest-response.ts';

/**
 * Cuts a connection whose client has taken nothing of its answer for the time that a reader may stall: it would keep what the answer is
 * made of in memory for as long as it liked. One that waits for an answer, or sends its request, has other limits.
 */
export function cutStalledReaders(server: Server, streams: OpenStreams): void {
  server.timeout = streams.stallMs;
  // After an answer, node:http has the socket time out after `keepAliveTimeout`, and with a listener leaves the closing to it.
  server.on('timeout', (socket: Socket) => {
    if (socket.writableLength > 0) streams.cut(socket);
    else if (isKeptForNext(socket)) socket.destroy();
  });
}
