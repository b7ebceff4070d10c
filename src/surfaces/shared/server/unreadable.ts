import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { newId } from '../../../ids.ts';

/** The newest answer of each connection. Answers go out in the order of their requests, so it is the last to end. */
const newest = new WeakMap<Duplex, ServerResponse>();
const refused = new WeakSet<Duplex>();

/** Needed to tell, when a connection has an error, whether an earlier request on it is still being answered. */
export function rememberAnswers(server: Server): void {
  server.on('request', (request: IncomingMessage, response: ServerResponse) => newest.set(request.socket, response));
}

/**
 * What cannot be read as HTTP never becomes a request: it is refused on the bare connection, in the shape of every error,
 * and not before what was asked earlier there has been answered.
 */
export function refuseUnreadable(error: Error & { code?: string }, socket: Duplex): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy();
  if (refused.has(socket)) return;
  refused.add(socket);
  const answer = newest.get(socket);
  if (answer === undefined || answer.writableFinished || isItsOwn(answer)) refuse(error, socket);
  else answer.once('close', () => refuse(error, socket));
}

/** A request for a tunnel never becomes one of ours either; node:http hands its connection over, and closes it unless somebody takes it. */
export function refuseTunnel(_request: IncomingMessage, socket: Duplex): void {
  // node:http has removed its own listeners. What the client has sent is read: closing a connection with unread bytes resets
  // it, and the client would not get the answer.
  socket.on('error', () => socket.destroy()).resume();
  refuseUnreadable(Object.assign(new Error('CONNECT'), { code: 'CONNECT' }), socket);
}

/** What a client expects beyond `100-continue`, nobody here can give. */
export function refuseExpectation(_request: IncomingMessage, response: ServerResponse): void {
  const body = JSON.stringify({ detail: 'Expect: only 100-continue is supported' });
  const headers = { 'content-type': 'application/json; charset=utf-8', 'content-length': body.length, 'x-request-id': newId('rid_') };
  response.writeHead(417, headers).end(body);
}

/** Whether the request that is being answered is itself the unreadable one: its body did not arrive, or is malformed. */
function isItsOwn({ req, headersSent, socket }: ServerResponse): boolean {
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
