import { Readable } from 'node:stream';
import type { FastifyRequest, onSendHookHandler, preParsingHookHandler } from 'fastify';
import type { Context } from '../../../context.ts';

/** Waits in the line of the caller's org until the request may be processed. Throws if the line is too long. */
export async function takePlace(context: Context, request: FastifyRequest, orgId: number): Promise<void> {
  const refusal = context.waitingRoom.refusalOf(orgId);
  if (refusal !== undefined) {
    request.server.refusals.remember(request, orgId, refusal);
    throw refusal;
  }
  const place = context.waitingRoom.enter(orgId, () => request.raw.socket.destroyed);
  request.place = 'leave' in place ? place : await place;
  // A place is left when the response ends, but a client that disconnected while it waited gets no response.
  if (request.raw.socket.destroyed) request.place.leave();
}

/**
 * No place is held while a body arrives: otherwise one browser that sends ten requests a second, and their bodies slowly or never,
 * would keep its whole organization waiting.
 */
export const leavePlaceForBody: preParsingHookHandler = (request, _reply, payload, done) => {
  // One that came in the same packet as the headers is read right after this. Nobody waits for that of a GET.
  if (!request.raw.complete && request.method !== 'GET' && request.method !== 'HEAD') setImmediate(leaveUntilComplete, request);
  done(null, payload);
};

function leaveUntilComplete(request: FastifyRequest): void {
  if (request.raw.complete) return;
  request.place?.leave();
  request.place = undefined;
}

/**
 * No place is held while a client takes its time to read the answer. An array that is sent page by page still has to be read from the
 * database: `sendLongArray` leaves the place itself.
 */
export const leavePlaceForAnswer: onSendHookHandler = (request, _reply, payload, done) => {
  if (!(payload instanceof Readable)) request.place?.leave();
  done(null, payload);
};
