import type { FastifyRequest } from 'fastify';
import type { Principal } from '../../accounts/principal.ts';
import { notFound, ServiceError } from '../../errors.ts';
import type { SessionFilter } from '../../session/list-sessions.ts';
import type { Session } from '../../session/sessions.ts';
import { principalOf } from '../shared/caller/authenticate.ts';

/** Which sessions a listing shows: a verified end user's own, those of the visitor id that an anonymous caller names, or any for a key. */
export function listFilter(principal: Principal, agentId: number, endUser: string | undefined): SessionFilter {
  if (principal.type !== 'token') return endUser === undefined ? { agentId } : { agentId, endUserId: endUser };
  if (principal.endUserId !== undefined) return { agentId, endUserId: principal.endUserId, isVisitor: false };
  if (endUser === undefined) throw new ServiceError('bad-request', 'end_user: is required from an anonymous caller');
  return { agentId, endUserId: endUser, isVisitor: true };
}

/**
 * An anonymous caller must name the session's end user to read its transcript. A verified token has already been checked
 * against the session; a key or a member may name one.
 */
export function assertTranscriptOf(request: FastifyRequest, session: Session, endUser: string | undefined): void {
  const principal = principalOf(request);
  if (principal.type === 'token' && principal.endUserId !== undefined) return;
  if (principal.type !== 'token' && endUser === undefined) return;
  if (endUser !== session.endUserId) throw notFound();
}
