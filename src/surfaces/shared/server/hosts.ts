import type { onRequestAsyncHookHandler } from 'fastify';
import type { Config } from '../../../config.ts';
import { notFound, ServiceError } from '../../../errors.ts';
import type { RouteFamily } from '../fastify.ts';
import { hostOf } from './host-header.ts';

/** A family of routes with a host of its own answers only there. One without answers on every host that is not another family's. */
export function splitHosts(config: Config): onRequestAsyncHookHandler {
  const hosts: Record<RouteFamily, string | undefined> = {
    base: config.PARLEY_BASE_HOST,
    agent: config.PARLEY_AGENT_HOST,
    management: config.PARLEY_MANAGEMENT_HOST,
  };
  if (Object.values(hosts).every((name) => name === undefined)) return async () => {};
  return async (request) => {
    const families = request.routeOptions.config.family;
    if (families === undefined) return;
    const host = hostOf(request).toLowerCase();
    const isOn = (name: string | undefined) => host === name || host.replace(/:\d+$/, '') === name;
    // The dashboard, on the management host, calls the other families from there with a member's cookie.
    const { authorization, 'x-parley-dashboard': dashboard } = request.headers;
    if (dashboard === '1' && authorization === undefined && isOn(hosts.management)) return;
    const wanted = [families].flat().map((family) => hosts[family]);
    if (wanted.some((name) => name !== undefined && isOn(name))) return;
    const isAnothers = Object.values(hosts).some((name) => name !== undefined && isOn(name));
    if (!wanted.includes(undefined) || isAnothers) throw notFound();
  };
}

/** RFC 9112: a request must have exactly one Host. */
export const requireOneHost: onRequestAsyncHookHandler = async ({ raw }) => {
  let hosts = 0;
  for (let index = 0; index < raw.rawHeaders.length; index += 2) if (/^host$/i.test(raw.rawHeaders[index] ?? '')) hosts += 1;
  if (hosts > 1 || (hosts === 0 && raw.httpVersion === '1.1')) throw new ServiceError('bad-request', 'Host: is required once');
};
