import type { FastifyRequest, onRequestAsyncHookHandler } from 'fastify';
import type { Context } from '../../../context.ts';
import { ServiceError } from '../../../errors.ts';
import { instanceIdOf } from '../../../session/metadata.ts';
import type { Session } from '../../../session/sessions.ts';
import { principalOf } from './authenticate.ts';
import { visibleSession } from './visible-session.ts';

/** Throws if the org has turned off access to what is said in its sessions. */
export function assertTranscriptsOpen(request: FastifyRequest): void {
  if (!principalOf(request).organization.transcriptsAccess)
    throw new ServiceError('forbidden', 'Transcript access is disabled for this organization');
}

/**
 * The same, but for members only: with keys and tokens, these routes show end users their own sessions. Sessions that members
 * begin in the playground stay open to them.
 */
export function assertOpenToMember(request: FastifyRequest, session: Session): void {
  if (principalOf(request).type === 'member' && !isOfPlayground(session)) assertTranscriptsOpen(request);
}

/** The same for a member who sends to a session: they would read the agent's answer, and could have it repeat the rest. */
export async function assertMayJoin(context: Context, request: FastifyRequest, sessionId: string): Promise<void> {
  if (!isClosedToMember(request)) return;
  assertOpenToMember(request, await visibleSession(context, request, sessionId));
}

/** The same, as a hook, for what would let a member read anyone's sessions. */
export const refuseMembersWhileClosed: onRequestAsyncHookHandler = async (request) => {
  if (principalOf(request).type === 'member') assertTranscriptsOpen(request);
};

/** The same as a question, for what is shown to a member without what was said. */
export function isClosedToMember(request: FastifyRequest): boolean {
  const { type, organization } = principalOf(request);
  return type === 'member' && !organization.transcriptsAccess;
}

/** Metadata is what any client says, so this counts only for a session that has no end user and no instance with a name. */
function isOfPlayground({ metadata, endUserId }: Session): boolean {
  return metadata.source === 'playground' && endUserId === undefined && instanceIdOf(metadata) === undefined;
}
