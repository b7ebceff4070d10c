import type { FastifyRequest } from 'fastify';
import { notFound } from '../../errors.ts';
import { principalOf } from '../shared/authenticate.ts';

/** The integer id of the path; what cannot be one is not found. */
export function pathId(request: FastifyRequest): number {
  const { id } = request.params as { id: string };
  if (!/^[1-9]\d{0,8}$/.test(id)) throw notFound();
  return Number(id);
}

/** What the caller may do, and so may let others do. */
export function scopesOf(request: FastifyRequest): ReadonlySet<string> {
  const principal = principalOf(request);
  return principal.type === 'token' ? new Set() : principal.scopes;
}
