import type { onRequestAsyncHookHandler } from 'fastify';
import type { Scope } from '../../accounts/scopes.ts';
import type { Context } from '../../context.ts';
import { notFound } from '../../errors.ts';
import { principalOf, requireKey, requireScope } from '../shared/authenticate.ts';
import { pathParameter } from '../shared/path.ts';

/** The hooks of routes below /api/agents/{slug}: who calls, then whether the agent is theirs, then what they may do. */
export function requireAgentOfPath(context: Context, scope: Scope): onRequestAsyncHookHandler[] {
  const findAgent: onRequestAsyncHookHandler = async (request) => {
    request.agent = await context.directory.agentBySlug(principalOf(request).organization.id, pathParameter(request, 'slug'));
    if (request.agent === undefined) throw notFound();
  };
  return [requireKey(context), findAgent, requireScope(scope)];
}
