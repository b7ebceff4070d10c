import type { FastifyRequest } from 'fastify';
import type { Agent } from '../../../accounts/agents.ts';
import type { Context } from '../../../context.ts';
import { orNotFound } from '../../../errors.ts';
import { principalOf } from './authenticate.ts';

/** The agent for routes that name none. */
export async function defaultAgent(context: Context, request: FastifyRequest): Promise<Agent> {
  const { id, defaultAgentId } = principalOf(request).organization;
  return orNotFound(defaultAgentId === undefined ? undefined : await context.directory.agentById(id, defaultAgentId));
}
