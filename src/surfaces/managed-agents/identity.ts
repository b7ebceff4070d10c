import type { FastifyRequest, preValidationAsyncHookHandler } from 'fastify';
import type { Principal } from '../../accounts/principal.ts';
import { notFound, ServiceError } from '../../errors.ts';
import type { Session, SessionFilter } from '../../session/sessions.ts';
import { instanceOf, type SessionRequest } from '../../turn/open-session.ts';
import { principalOf } from '../shared/authenticate.ts';

/** A verified end user cannot act for another: checked before the rest of the body is (403 comes before 400). */
export const refuseOtherIdentity: preValidationAsyncHookHandler = async (request) => {
  const principal = principalOf(request);
  if (principal.type !== 'token' || principal.endUserId === undefined) return;
  const claimed = claimedEndUsers(request.body);
  if (claimed.some((endUserId) => endUserId !== principal.endUserId))
    throw new ServiceError('forbidden', 'The metadata names another end user than the session token.', { code: 'identity_mismatch' });
};

/** Who a new session belongs to. What a browser says of itself is taken for what it is; what its token says is not its word. */
export function identityOf(
  principal: Principal,
  metadata: Record<string, unknown>,
): Pick<SessionRequest, 'metadata' | 'endUserId' | 'isVisitor' | 'agentInstanceId'> {
  if (principal.type !== 'token') return { metadata, agentInstanceId: instanceOf(metadata) };
  const { agent_instance_id: _untrusted, ...rest } = metadata;
  return {
    metadata: { ...rest, ...principal.metadata },
    endUserId: principal.endUserId,
    isVisitor: principal.endUserId === undefined,
    agentInstanceId: principal.agentInstanceId,
  };
}

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

function claimedEndUsers(body: unknown): string[] {
  if (typeof body !== 'object' || body === null || !('metadata' in body)) return [];
  const { metadata } = body;
  if (typeof metadata !== 'object' || metadata === null) return [];
  const { end_user_id: endUserId, user_id: userId } = { end_user_id: undefined, user_id: undefined, ...metadata };
  return [endUserId, userId].filter((claimed) => typeof claimed === 'string');
}
