import type { FastifyRequest } from 'fastify';
import type { Principal } from '../../accounts/principal.ts';
import { notFound, ServiceError } from '../../errors.ts';
import type { SessionFilter } from '../../session/list-sessions.ts';
import type { Session } from '../../session/sessions.ts';
import { principalOf } from '../shared/caller/authenticate.ts';

/**
 * Which sessions a caller can list: a verified end user their own, an anonymous visitor those that were begun under the id that
 * the visitor names, an API key all.
 */
export function listFilter(principal: Principal, agentId: number, endUser: string | undefined): SessionFilter {
  if (principal.type !== 'token') return endUser === undefined ? { agentId } : { agentId, endUserId: endUser };
  if (principal.endUserId !== undefined) return { agentId, endUserId: principal.endUserId, isVisitor: false };
  if (endUser === undefined) throw new ServiceError('bad-request', 'end_user: is required from an anonymous caller');
  return { agentId, endUserId: endUser, isVisitor: true };
}

/** An anonymous visitor must name the end user that the session was begun with. A verified token does so itself, a key need not. */
export function assertNamesEndUser(request: FastifyRequest, session: Session, endUser: string | undefined): void {
  const principal = principalOf(request);
  if (principal.type === 'token' && principal.endUserId !== undefined) return;
  if (principal.type !== 'token' && endUser === undefined) return;
  if (endUser !== session.endUserId) throw notFound();
}
