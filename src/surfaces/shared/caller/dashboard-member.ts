import type { FastifyRequest } from 'fastify';
import type { SignedIn } from '../../../accounts/sign-in.ts';
import type { Context } from '../../../context.ts';
import { hostOf } from '../server/host-header.ts';

const safeMethods = new Set(['GET', 'HEAD', 'OPTIONS']);

/**
 * The member whose cookie this is. A page of another site can make a browser send a request, but not this header: so
 * whatever changes something must carry it (and the cookie is SameSite=Strict besides).
 */
export async function dashboardMember(context: Context, request: FastifyRequest): Promise<SignedIn | undefined> {
  const { cookie, 'x-parley-dashboard': dashboard, 'x-parley-organization': slug } = request.headers;
  if (cookie === undefined || !isOwnOrigin(request)) return undefined;
  if (!safeMethods.has(request.method) && dashboard !== '1') return undefined;
  return context.signIn.memberOf(new Headers({ cookie }), typeof slug === 'string' ? slug : undefined);
}

/** Where a browser names the page that sends it, that page must be ours. A proxy may write out the port that a browser leaves out. */
export function isOwnOrigin(request: FastifyRequest): boolean {
  const { origin } = request.headers;
  if (origin === undefined) return true;
  const page = URL.parse(origin);
  return page !== null && page.host === URL.parse(`${page.protocol}//${hostOf(request)}`)?.host;
}
