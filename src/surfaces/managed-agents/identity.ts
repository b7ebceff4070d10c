import type { FastifyRequest } from 'fastify';
import type { Principal } from '../../accounts/principal.ts';
import { notFound, ServiceError } from '../../errors.ts';
import type { SessionFilter } from '../../session/list-sessions.ts';
import type { Session } from '../../session/sessions.ts';
import { principalOf } from '../shared/caller/authenticate.ts';

/** Whose sessions a listing shows: a verified end user's own, a visitor's by its id, and to an API key any. */
export function listFilter(principal: Principal, agentId: number, endUser: string | undefined): SessionFilter {
  if (principal.type !== 'token') return endUser === undefined ? { agentId } : { agentId, endUserId: endUser };
  if (principal.endUserId !== undefined) return { agentId, endUserId: principal.endUserId, isVisitor: false };
  if (endUser === undefined) throw new ServiceError('bad-request', 'end_user: is required from an anonymous caller');
  return { agentId, endUserId: endUser, isVisitor: true };
}

/** A transcript is reopened with the id and the end user that it was begun with; a verified token has said who that is. */
export function assertTranscriptOf(request: FastifyRequest, session: Session, endUser: string | undefined): void {
  const principal = principalOf(request);
  if (principal.type === 'token' && principal.endUserId !== undefined) return;
  if (principal.type !== 'token' && endUser === undefined) return;
  if (endUser !== session.endUserId) throw notFound();
}
