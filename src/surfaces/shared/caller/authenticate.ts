import type { FastifyRequest, onRequestAsyncHookHandler } from 'fastify';
import type { Principal } from '../../../accounts/principal.ts';
import type { Scope } from '../../../accounts/scopes.ts';
import type { Context } from '../../../context.ts';
import { notFound, ServiceError } from '../../../errors.ts';
import { pathParameter } from '../path.ts';
import { takePlace } from '../server/place.ts';
import { dashboardMember } from './dashboard-member.ts';

/** Admits API keys and signed-in members; a session token gets 401. */
export function requireKey(context: Context, ...scopes: Scope[]): ScopedHook {
  return withScopes(scopes, async (request) => {
    const principal = await authenticate(context, request);
    if (principal === undefined || principal.type === 'token') throw unauthorized();
    await admit(context, request, principal);
    requireScopes(principal, scopes);
  });
}

/** For routes below /{org}/{agent}: also finds the agent, before the body is parsed. */
export function requireAgent(context: Context, accepts: 'key' | 'key-or-token'): onRequestAsyncHookHandler {
  return async (request) => {
    const principal = await authenticate(context, request);
    if (principal === undefined || (principal.type === 'token' && accepts === 'key')) throw unauthorized();
    await admit(context, request, principal);
    const { id: orgId, slug } = principal.organization;
    const isOwn = pathParameter(request, 'org') === slug;
    const agent = isOwn ? await context.directory.agentBySlug(orgId, pathParameter(request, 'agent')) : undefined;
    if (agent === undefined || (principal.type === 'token' && principal.agentId !== agent.id)) throw notFound();
    request.agent = agent;
  };
}

/** Spec 4.3: a session token of another agent gets 404 here. One of this agent gets 401, as wherever only keys are accepted. */
export function hideFromOtherAgents(context: Context): onRequestAsyncHookHandler {
  return async (request) => {
    const secret = bearerOf(request);
    const token = secret === undefined || secret.startsWith('svc_') ? undefined : await context.tokens.verify(secret);
    if (token === undefined) return;
    if (pathParameter(request, 'org') !== token.organization.slug || pathParameter(request, 'agent') !== token.agentSlug) throw notFound();
  };
}

/** For routes where another hook comes before the check of the scope, so that what does not exist is 404 and not 403. */
export function requireScope(scope: Scope): ScopedHook {
  return withScopes([scope], async (request) => {
    const principal = principalOf(request);
    if (principal.type === 'token') throw unauthorized();
    requireScopes(principal, [scope]);
  });
}

/** A hook with the scopes that it requires, for the OpenAPI document. */
export type ScopedHook = onRequestAsyncHookHandler & { scopes: readonly Scope[] };

function withScopes(scopes: readonly Scope[], hook: onRequestAsyncHookHandler): ScopedHook {
  return Object.assign(hook, { scopes });
}

export function principalOf(request: FastifyRequest): Principal {
  if (request.principal === undefined) throw unauthorized();
  return request.principal;
}

/** What the caller may do, and may therefore allow others to do. */
export function scopesOf(principal: Principal): ReadonlySet<string> {
  return principal.type === 'token' ? new Set() : principal.scopes;
}

export function unauthorized(): ServiceError {
  return new ServiceError('unauthorized', 'Unauthorized');
}

/** The credential of the Authorization header. */
export function bearerOf(request: FastifyRequest): string | undefined {
  const header = request.headers.authorization;
  return header === undefined ? undefined : /^Bearer +(\S+)$/i.exec(header)?.[1];
}

/** A key, a session token, or, without an Authorization header, the cookie of a signed-in member. */
async function authenticate(context: Context, request: FastifyRequest): Promise<Principal | undefined> {
  if (request.headers.authorization === undefined) return (await dashboardMember(context, request))?.principal;
  const secret = bearerOf(request);
  if (secret === undefined) return undefined;
  return principalOfSecret(context, secret);
}

/** Undefined if the key or session token is not valid, or no longer. */
export async function principalOfSecret(context: Context, secret: string): Promise<Principal | undefined> {
  return secret.startsWith('svc_') ? context.directory.keyBySecret(secret) : context.tokens.verify(secret);
}

/** What every authenticated request passes: its org must be active and below its rate limit, and it waits for a place under load. */
async function admit(context: Context, request: FastifyRequest, principal: Principal): Promise<void> {
  // It is checked once more when it has waited.
  const isCounted = request.principal !== undefined;
  request.principal = principal;
  request.checkedAt = performance.now();
  if (principal.organization.status === 'suspended') throw new ServiceError('forbidden', 'Organization suspended');
  if (!isCounted) context.rateLimit.take(principal.organization.id);
  if (request.place === undefined) await takePlace(context, request, principal.organization.id);
}

function requireScopes(principal: Exclude<Principal, { type: 'token' }>, scopes: Scope[]): void {
  const missing = scopes.find((scope) => !principal.scopes.has(scope));
  if (missing !== undefined) throw new ServiceError('forbidden', `Missing scope: ${missing}`);
}
