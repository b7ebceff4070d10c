import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { pendingResponse } from './newest-response.ts';
import type { Asked, Refusal, Refusals } from './refusals.ts';
import { createRequestReader } from './whole-request.ts';

interface EarlyRefusals {
  refusals: Pick<Refusals, 'refuse'>;
  /** Whether requests wait, so that some may have to be refused soon. */
  isBusy(): boolean;
  /** Whether connections are to be kept open after an answer. */
  isStaying(): boolean;
}

/**
 * In an overload, most of what a refusal costs is node:http. On connections that are opened while requests wait, requests are looked at
 * before it parses them, and refused there for a third to a half less CPU time (`node bench/refusals.ts`). The rest it gets as it came.
 */
export function refuseEarly(server: Server, { refusals, isBusy, isStaying }: EarlyRefusals): void {
  const keepAlive = `keep-alive: timeout=${Math.floor(server.keepAliveTimeout / 1000)}`;
  const refuse = (socket: Socket, request: Asked): boolean => {
    // Answers keep the order of the requests, and do not pile up for a client that reads none.
    if (!isStaying() || pendingResponse(socket) !== undefined || socket.writableLength > 0) return false;
    const refusal = refusals.refuse(request);
    if (refusal !== undefined) socket.write(textOf(refusal, keepAlive));
    return refusal !== undefined;
  };
  server.on('connection', (socket: Socket) => {
    if (isBusy()) readAhead(socket, refuse);
  });
}

/** Reads a connection ahead of node:http, which no longer reads it itself once somebody else listens for its bytes. */
function readAhead(socket: Socket, refuse: (socket: Socket, request: Asked) => boolean): void {
  const parsers = socket.listeners('data') as ((chunk: Buffer) => void)[];
  const readRequest = createRequestReader();
  let isFirst = true;
  const read = (chunk: Buffer) => {
    const request = readRequest(chunk);
    // Where the next one begins is no longer known here: the rest of the connection is left to node:http.
    if (request === undefined) stop();
    // The first one is not refused here, because node:http cuts connections on which it never gets a request.
    else if (!isFirst && refuse(socket, request)) return;
    isFirst = false;
    for (const parse of parsers) parse.call(socket, chunk);
  };
  const stop = () => {
    for (const parse of parsers) socket.on('data', parse);
    socket.off('data', read);
  };
  socket.on('data', read);
  for (const parse of parsers) socket.off('data', parse);
}

function textOf({ headers, body }: Refusal, keepAlive: string): string {
  let head = 'HTTP/1.1 503 Service Unavailable\r\n';
  for (const name in headers) head += `${name}: ${headers[name]}\r\n`;
  return `${head}date: ${new Date().toUTCString()}\r\nconnection: keep-alive\r\n${keepAlive}\r\n\r\n${body}`;
}
