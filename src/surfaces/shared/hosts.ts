import type { onRequestAsyncHookHandler } from 'fastify';
import type { Config } from '../../config.ts';
import { notFound } from '../../errors.ts';
import type { RouteFamily } from './fastify.ts';

/** With split hosts, a route family answers only on its own; elsewhere it does not exist. */
export function splitHosts(config: Config): onRequestAsyncHookHandler {
  const hosts: Record<Exclude<RouteFamily, 'any'>, string | undefined> = {
    base: config.PARLEY_BASE_HOST,
    agent: config.PARLEY_AGENT_HOST,
    management: config.PARLEY_MANAGEMENT_HOST,
  };
  return async (request) => {
    const families = request.routeOptions.config.family ?? 'any';
    if (families === 'any') return;
    const wanted = [families].flat().map((family) => (family === 'any' ? undefined : hosts[family]));
    if (wanted.includes(undefined)) return;
    const host = request.host.toLowerCase();
    if (!wanted.some((name) => host === name || host.split(':')[0] === name)) throw notFound();
  };
}
