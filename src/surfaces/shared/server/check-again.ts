import type {
  FastifyReply,
  FastifyRequest,
  onRequestAsyncHookHandler,
  onRequestHookHandler,
  onRouteHookHandler,
  preValidationAsyncHookHandler,
} from 'fastify';
import type { Context } from '../../../context.ts';
import { takePlace } from './place.ts';

/** How long any process may take to hear of a change: a request that waited for less is as good as one that did not wait. */
const coherentMs = 1_000;

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

/** Keeps the hooks of a route for `checkAgainIfLongAgo`. Those of a whole scope are not among them. */
export const keepChecks: onRouteHookHandler = (route) => {
  const checks = [route.onRequest ?? []].flat().filter((hook) => isAsync(hook));
  route.config = { ...route.config, checks };
};

/** Fastify tells them apart in the same way: a hook with a third parameter calls it when it is done. */
function isAsync(hook: onRequestHookHandler | onRequestAsyncHookHandler): hook is onRequestAsyncHookHandler {
  return hook.length < 3;
}
