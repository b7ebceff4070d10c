import { isIP } from 'node:net';
import type { onRequestAsyncHookHandler } from 'fastify';
import type { Config } from '../../../config.ts';
import { ServiceError } from '../../../errors.ts';
import { hostOf } from '../server/host-header.ts';
import { isOwnOrigin } from './dashboard-member.ts';

/**
 * Refuses requests that a page of another site made a browser send. A host name that is not configured may be an attacker's that
 * was pointed at this machine (DNS rebinding); an IP address or localhost cannot.
 */
export function requireOwnAddress(config: Config): onRequestAsyncHookHandler {
  const names = new Set([config.PARLEY_BASE_HOST, config.PARLEY_AGENT_HOST, config.PARLEY_MANAGEMENT_HOST].map(nameOf));
  if (config.PARLEY_PUBLIC_URL !== undefined) names.add(new URL(config.PARLEY_PUBLIC_URL).hostname);
  return async (request) => {
    const name = nameOf(hostOf(request));
    const isKnown = name !== undefined && (names.has(name) || name === 'localhost' || name.endsWith('.localhost') || isAddress(name));
    if (!isKnown) throw new ServiceError('forbidden', 'Unknown host. Set PARLEY_PUBLIC_URL to the URL at which people reach Parley.');
    if (!isOwnOrigin(request)) throw new ServiceError('forbidden', 'This route is for the dashboard only.');
  };
}

function nameOf(host: string | undefined): string | undefined {
  return host !== undefined && URL.canParse(`http://${host}`) ? new URL(`http://${host}`).hostname : undefined;
}

function isAddress(name: string): boolean {
  return isIP(name.replace(/^\[|\]$/g, '')) !== 0;
}
