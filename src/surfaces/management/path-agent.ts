import type { onRequestAsyncHookHandler } from 'fastify';
import type { Scope } from '../../accounts/scopes.ts';
import type { Context } from '../../context.ts';
import { orNotFound } from '../../errors.ts';
import { principalOf, requireKey, requireScope } from '../shared/caller/authenticate.ts';
import { pathParameter } from '../shared/path.ts';

/** The hooks of routes below /api/agents/{slug}, in this order: who is calling, is the agent theirs (404), may they do this (403). */
export function requireAgentOfPath(context: Context, scope: Scope): onRequestAsyncHookHandler[] {
  const findAgent: onRequestAsyncHookHandler = async (request) => {
    const { id: orgId } = principalOf(request).organization;
    request.agent = orNotFound(await context.directory.agentBySlug(orgId, pathParameter(request, 'slug')));
  };
  return [requireKey(context), findAgent, requireScope(scope)];
}
