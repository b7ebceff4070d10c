import type { onRequestAsyncHookHandler } from 'fastify';
import type { Config } from '../../../config.ts';
import { notFound, ServiceError } from '../../../errors.ts';
import type { RouteFamily } from '../fastify.ts';
import { hostOf } from './host-header.ts';

/** With split hosts, a route family answers only on its own, and one without a host on any that is not another's. */
export function splitHosts(config: Config): onRequestAsyncHookHandler {
  const hosts: Record<Exclude<RouteFamily, 'any'>, string | undefined> = {
    base: config.PARLEY_BASE_HOST,
    agent: config.PARLEY_AGENT_HOST,
    management: config.PARLEY_MANAGEMENT_HOST,
  };
  return async (request) => {
    const families = request.routeOptions.config.family ?? 'any';
    if (families === 'any') return;
    const host = hostOf(request).toLowerCase();
    const isOn = (name: string | undefined) => host === name || host.replace(/:\d+$/, '') === name;
    // The dashboard is on the management host and talks to agents from there, with a member's cookie.
    const { authorization, 'x-parley-dashboard': dashboard } = request.headers;
    if (dashboard === '1' && authorization === undefined && isOn(hosts.management)) return;
    const wanted = [families].flat().map((family) => (family === 'any' ? undefined : hosts[family]));
    if (wanted.some((name) => name !== undefined && isOn(name))) return;
    const isAnothers = Object.values(hosts).some((name) => name !== undefined && isOn(name));
    if (!wanted.includes(undefined) || isAnothers) throw notFound();
  };
}

/** RFC 9112: without exactly one Host it is not clear whom the request is for. */
export const requireOneHost: onRequestAsyncHookHandler = async ({ raw }) => {
  let hosts = 0;
  for (let index = 0; index < raw.rawHeaders.length; index += 2) if (/^host$/i.test(raw.rawHeaders[index] ?? '')) hosts += 1;
  if (hosts > 1 || (hosts === 0 && raw.httpVersion === '1.1')) throw new ServiceError('bad-request', 'Host: is required once');
};
