import type { FastifyRequest, onRequestAsyncHookHandler } from 'fastify';
import type { Agent } from '../../accounts/agents.ts';
import { notFound, orNotFound } from '../../errors.ts';
import { fieldOf } from '../../text/json.ts';

/** A parameter of the route's path, as text. */
export function pathParameter(request: FastifyRequest, name: string): string {
  const value = fieldOf(request.params, name);
  if (typeof value !== 'string') throw new Error(`the route ${request.routeOptions.url} has no parameter ${name}`);
  return value;
}

/** A numeric id in the path; any other text is 404, and so is a number beyond `most`, by default that of an integer column. */
export function pathNumber(request: FastifyRequest, name: string, most = 2 ** 31 - 1): number {
  const text = pathParameter(request, name);
  if (!/^[1-9]\d{0,15}$/.test(text) || Number(text) > most) throw notFound();
  return Number(text);
}

/** A hook that runs before the body is checked: what the path names and the caller does not have is 404, whatever else is wrong. */
export function requireFound(find: (request: FastifyRequest) => Promise<unknown>): onRequestAsyncHookHandler {
  return async (request) => void (await find(request));
}

/** The agent that the path names, which `requireAgent` found. */
export function agentOf(request: FastifyRequest): Agent {
  return orNotFound(request.agent);
}
