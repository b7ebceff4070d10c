import type { FastifyRequest } from 'fastify';
import type { SignedIn } from '../../../accounts/sign-in.ts';
import type { Context } from '../../../context.ts';
import { hostOf } from '../server/host-header.ts';

const safeMethods = new Set(['GET', 'HEAD', 'OPTIONS']);

/**
 * The member whose cookie the request has. A page of another site can make a browser send a request, but not with the header
 * `x-parley-dashboard`: so every request that changes something must have it. (The cookie is also SameSite=Strict.)
 */
export async function dashboardMember(context: Context, request: FastifyRequest): Promise<SignedIn | undefined> {
  const { cookie, 'x-parley-dashboard': dashboard, 'x-parley-organization': slug } = request.headers;
  if (cookie === undefined || !isOwnOrigin(request)) return undefined;
  if (!safeMethods.has(request.method) && dashboard !== '1') return undefined;
  return context.signIn.memberOf(new Headers({ cookie }), typeof slug === 'string' ? slug : undefined);
}

/** Whether our own page sent the request, if the browser says which did. Hosts are parsed: a proxy may spell out the default port. */
export function isOwnOrigin(request: FastifyRequest): boolean {
  const { origin } = request.headers;
  if (origin === undefined) return true;
  const page = URL.parse(origin);
  return page !== null && page.host === URL.parse(`${page.protocol}//${hostOf(request)}`)?.host;
}
