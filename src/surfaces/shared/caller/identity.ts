import type { preValidationAsyncHookHandler } from 'fastify';
import type { Principal, TokenPrincipal } from '../../../accounts/principal.ts';
import { ServiceError } from '../../../errors.ts';
import { endUserOf, instanceIdOf } from '../../../session/metadata.ts';
import { fieldOf } from '../../../text/json.ts';
import type { SessionIdentity } from '../../../turn/open-session.ts';
import { principalOf } from './authenticate.ts';
import { assertTranscriptsOpen } from './support-access.ts';

/**
 * A verified end user cannot act for another one, nor can a member for any while support access is off: the agent would show them the
 * end user's files. Runs before the body is validated, so that this 403 comes before a 400.
 */
export const refuseOtherIdentity: preValidationAsyncHookHandler = async (request) => {
  const principal = principalOf(request);
  if (principal.type === 'member' && namesInstance(request.body)) assertTranscriptsOpen(request);
  if (principal.type !== 'token' || principal.endUserId === undefined) return;
  const claimed = claimedEndUsers(request.body);
  if (claimed.some((endUserId) => endUserId !== principal.endUserId))
    throw new ServiceError('forbidden', 'The metadata names a different end user than the session token.', { code: 'identity_mismatch' });
};

/** Whom a new session belongs to. */
export function identityOf(principal: Principal, metadata: Record<string, unknown>): SessionIdentity {
  return principal.type === 'token' ? identityOfToken(principal, metadata) : { metadata, agentInstanceId: instanceIdOf(metadata) };
}

/** The same for a session token. Metadata from a browser is only a claim; what the token contains was set by the customer. */
export function identityOfToken(
  token: Pick<TokenPrincipal, 'endUserId' | 'agentInstanceId' | 'metadata'>,
  claimed: Record<string, unknown> = {},
): SessionIdentity {
  const { agent_instance_id: _untrusted, ...rest } = claimed;
  return {
    metadata: { ...rest, ...token.metadata },
    endUserId: token.endUserId,
    isVisitor: token.endUserId === undefined,
    agentInstanceId: token.agentInstanceId ?? instanceIdOf(token.metadata),
  };
}

/** The customer may keep the answers to approvals to itself: an end user would grant their own refund. */
export function assertMayApprove(principal: Principal): void {
  if (principal.type === 'token' && !principal.mayApprove)
    throw new ServiceError('forbidden', 'This session token cannot answer approvals.', { code: 'approval_not_allowed' });
}

/** Whom a turn is attributed to: the end user of a session token, or the one that a customer's backend names. */
export function actingUserOf(principal: Principal, metadata: Record<string, unknown>): string | undefined {
  return principal.type === 'token' ? principal.endUserId : endUserOf(metadata);
}

/** Whether the session would belong to an end user, or to an instance with a name, and share its files. */
function namesInstance(body: unknown): boolean {
  return claimedEndUsers(body).length > 0 || typeof fieldOf(fieldOf(body, 'metadata'), 'agent_instance_id') === 'string';
}

function claimedEndUsers(body: unknown): string[] {
  const metadata = fieldOf(body, 'metadata');
  return [fieldOf(metadata, 'end_user_id'), fieldOf(metadata, 'user_id')].filter((claimed) => typeof claimed === 'string');
}
