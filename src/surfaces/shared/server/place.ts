import { Readable } from 'node:stream';
import type {
  FastifyReply,
  FastifyRequest,
  onRequestAsyncHookHandler,
  onRequestHookHandler,
  onRouteHookHandler,
  onSendHookHandler,
  preParsingHookHandler,
  preValidationAsyncHookHandler,
} from 'fastify';
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

/** A body may come up to a minute after its headers, and in a flood a request may wait for its place for as long. */
export function checkAgainAfterWaiting(context: Context): preValidationAsyncHookHandler {
  return async (request, reply) => {
    const { principal } = request;
    if (principal === undefined) return;
    if (request.place === undefined) await takePlace(context, request, principal.organization.id);
    await checkAgainIfLongAgo(request, reply);
  };
}

/**
 * While a request waits, a key is revoked, a member removed or support access turned off. So if it waited for long, all that the route
 * checked before is checked again.
 */
export async function checkAgainIfLongAgo(request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const { checkedAt = 0, routeOptions } = request;
  if (performance.now() - checkedAt < coherentMs) return;
  for (const check of routeOptions.config.checks ?? []) await check.call(request.server, request, reply);
}

/** So long any process may take to hear of a change: a request that waited less is as good as one that did not wait. */
const coherentMs = 1_000;

/** Keeps the hooks of a route for `checkAgainIfLongAgo`. Those of a whole scope are not among them. */
export const keepChecks: onRouteHookHandler = (route) => {
  const checks = [route.onRequest ?? []].flat().filter((hook) => isAsync(hook));
  route.config = { ...route.config, checks };
};

/** Fastify tells them apart in the same way: a hook with a third parameter calls it when it is done. */
function isAsync(hook: onRequestHookHandler | onRequestAsyncHookHandler): hook is onRequestAsyncHookHandler {
  return hook.length < 3;
}

/**
 * No place is held while a client takes its time to read the answer. An array that is sent page by page still has to be read from the
 * database: `sendLongArray` leaves the place itself.
 */
export const leavePlaceForAnswer: onSendHookHandler = (request, _reply, payload, done) => {
  if (!(payload instanceof Readable)) request.place?.leave();
  done(null, payload);
};
