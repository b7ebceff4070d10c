import type { FastifyRequest, onRequestAsyncHookHandler } from 'fastify';
import type { Scope } from '../../accounts/scopes.ts';
import type { Context } from '../../context.ts';
import { orNotFound } from '../../errors.ts';
import { findEndpoint, type WebhookEndpoint } from '../../outbox/endpoints.ts';
import { principalOf, requireKey, requireScope } from '../shared/caller/authenticate.ts';
import { pathNumber, pathParameter, requireFound } from '../shared/path.ts';

/** The hooks of routes below /api/agents/{slug}, in this order: who is calling, is the agent theirs (404), may they do this (403). */
export function requireAgentOfPath(context: Context, scope: Scope): onRequestAsyncHookHandler[] {
  const findAgent: onRequestAsyncHookHandler = async (request) => {
    const { id: orgId } = principalOf(request).organization;
    request.agent = orNotFound(await context.directory.agentBySlug(orgId, pathParameter(request, 'slug')));
  };
  return [requireKey(context), findAgent, requireScope(scope)];
}

export function requireEndpointOfPath(context: Context): onRequestAsyncHookHandler {
  return requireFound((request) => endpointOfPath(context, request));
}

export async function endpointOfPath(context: Context, request: FastifyRequest): Promise<WebhookEndpoint> {
  return orNotFound(await findEndpoint(context.database.db, principalOf(request).organization.id, pathNumber(request, 'id')));
}
