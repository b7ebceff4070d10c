import type { FastifyRequest, onRequestAsyncHookHandler } from 'fastify';
import type { Context } from '../../context.ts';
import { notFound } from '../../errors.ts';
import { findEndpoint, type WebhookEndpoint } from '../../outbox/endpoints.ts';
import { principalOf } from '../shared/authenticate.ts';
import { pathNumber } from '../shared/path.ts';

/** Before the body is looked at: an endpoint that is not theirs is 404, whatever was sent. */
export function requireEndpoint(context: Context): onRequestAsyncHookHandler {
  return async (request) => {
    await endpointOf(context, request);
  };
}

/** The webhook endpoint that the path names. */
export async function endpointOf(context: Context, request: FastifyRequest): Promise<WebhookEndpoint> {
  const endpoint = await findEndpoint(context.database.db, principalOf(request).organization.id, pathNumber(request, 'id'));
  if (endpoint === undefined) throw notFound();
  return endpoint;
}
