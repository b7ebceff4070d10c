import type { FastifyRequest, onRequestAsyncHookHandler } from 'fastify';
import type { Context } from '../../context.ts';
import { orNotFound } from '../../errors.ts';
import { findEndpoint, type WebhookEndpoint } from '../../outbox/endpoints.ts';
import { principalOf } from '../shared/caller/authenticate.ts';
import { pathNumber, requireFound } from '../shared/path.ts';

export function requireEndpoint(context: Context): onRequestAsyncHookHandler {
  return requireFound((request) => endpointOf(context, request));
}

/** The webhook endpoint that the path names. */
export async function endpointOf(context: Context, request: FastifyRequest): Promise<WebhookEndpoint> {
  return orNotFound(await findEndpoint(context.database.db, principalOf(request).organization.id, pathNumber(request, 'id')));
}
