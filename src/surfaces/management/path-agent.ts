import type { FastifyRequest, onRequestAsyncHookHandler } from 'fastify';
import type { Agent } from '../../accounts/agents.ts';
import type { Scope } from '../../accounts/scopes.ts';
import type { Context } from '../../context.ts';
import { notFound } from '../../errors.ts';
import { principalOf, requireKey, requireScope } from '../shared/authenticate.ts';

/** The hooks of routes below /api/agents/{slug}: who calls, then whether the agent is theirs, then what they may do. */
export function requireAgentOfPath(context: Context, scope: Scope): onRequestAsyncHookHandler[] {
  const findAgent: onRequestAsyncHookHandler = async (request) => {
    const { slug } = request.params as { slug: string };
    request.agent = await context.directory.agentBySlug(principalOf(request).organization.id, slug);
    if (request.agent === undefined) throw notFound();
  };
  return [requireKey(context), findAgent, requireScope(scope)];
}

export function pathAgent(request: FastifyRequest): Agent {
  if (request.agent === undefined) throw notFound();
  return request.agent;
}
