import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { newId } from '../../../ids.ts';
import { pendingResponse } from './newest-response.ts';

const refused = new WeakSet<Duplex>();

/**
 * What is not valid HTTP never becomes a request. It is refused directly on the socket, with a body like that of other errors,
 * after earlier requests of the connection have got their responses.
 */
export function refuseUnreadable(error: Error & { code?: string }, socket: Duplex): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy();
  if (refused.has(socket)) return;
  refused.add(socket);
  const response = pendingResponse(socket);
  if (response === undefined || isOfUnreadable(response)) refuse(error, socket);
  else response.once('close', () => refuse(error, socket));
}

/** CONNECT never becomes a request either: node:http hands its socket over, or closes it without a response if nobody listens. */
export function refuseTunnel(_request: IncomingMessage, socket: Duplex): void {
  // node:http has removed its own listeners. What the client has sent must be read: closing a connection with unread bytes
  // resets it, and the client would not get the response.
  socket.on('error', () => socket.destroy()).resume();
  refuseUnreadable(Object.assign(new Error('CONNECT'), { code: 'CONNECT' }), socket);
}

/** node:http answers `Expect: 100-continue` itself; no other expectation is supported. */
export function refuseExpectation(_request: IncomingMessage, response: ServerResponse): void {
  const body = JSON.stringify({ detail: 'Expect: only 100-continue is supported' });
  const headers = { 'content-type': 'application/json; charset=utf-8', 'content-length': body.length, 'x-request-id': newId('rid_') };
  response.writeHead(417, headers).end(body);
}

/** Whether the response belongs to the unreadable request itself, whose body did not arrive or is malformed. */
function isOfUnreadable({ req, headersSent, socket }: ServerResponse): boolean {
  return !req.complete && !headersSent && socket !== null;
}

function refuse({ code = '' }: { code?: string }, socket: Duplex): void {
  if (!socket.writable) return void socket.destroy();
  const [status, detail] = reasons[code] ?? ['400 Bad Request', 'The request is malformed.'];
  const body = JSON.stringify({ detail });
  const head = `content-type: application/json; charset=utf-8\r\ncontent-length: ${body.length}\r\nx-request-id: ${newId('rid_')}`;
  socket.end(
    `HTTP/1.1 ${status}\r\n${head}\r\n${status.startsWith('408') ? 'x-should-retry: true\r\n' : ''}connection: close\r\n\r\n${body}`,
    () => socket.destroy(),
  );
}

const reasons: Record<string, [status: string, detail: string]> = {
  CONNECT: ['400 Bad Request', 'CONNECT: this server is not a proxy.'],
  HPE_HEADER_OVERFLOW: ['431 Request Header Fields Too Large', 'The headers are larger than 16 KiB.'],
  ERR_HTTP_REQUEST_TIMEOUT: ['408 Request Timeout', 'The request did not arrive in time.'],
};
