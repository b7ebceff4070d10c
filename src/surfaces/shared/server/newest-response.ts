import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

/** The newest response of each connection. Responses are sent in the order of their requests, so it is the last to end. */
const newestResponses = new WeakMap<Duplex, ServerResponse>();

/** Needed to tell whether an earlier request of a connection still waits for its response: when it has an error, and when it is silent. */
export function rememberResponses(server: Server): void {
  const remember = (request: IncomingMessage, response: ServerResponse) => newestResponses.set(request.socket, response);
  server.on('request', remember);
  server.on('checkExpectation', remember);
}

/** The response to the newest request of a connection, if it is still being sent, or has yet to be. */
export function pendingResponse(socket: Duplex): ServerResponse | undefined {
  const response = newestResponses.get(socket);
  return response?.writableFinished === false ? response : undefined;
}

/** Whether every request of a connection has been answered, and there was one. */
export function isKeptForNext(socket: Duplex): boolean {
  return newestResponses.get(socket)?.writableFinished === true;
}
