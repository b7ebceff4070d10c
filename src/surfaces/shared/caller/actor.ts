import type { FastifyRequest } from 'fastify';
import type { Actor } from '../../../audit/record.ts';
import type { Context } from '../../../context.ts';
import { principalOf } from './authenticate.ts';

/** The caller as the audit log names it: a key by its prefix, a member by their email. */
export function actorOf(context: Context, request: FastifyRequest): Actor {
  const principal = principalOf(request);
  const actor = { ...requestActor(context, request), orgId: principal.organization.id };
  if (principal.type === 'key') return { ...actor, apiKeyPrefix: principal.prefix };
  if (principal.type === 'member') return { ...actor, email: principal.email, userId: principal.userId };
  return actor;
}

/** What is known of every request, even without authentication. */
export function requestActor(context: Context, request: FastifyRequest): Omit<Actor, 'orgId'> {
  return { at: context.clock.now(), ipAddress: request.ip, userAgent: request.headers['user-agent'] };
}
