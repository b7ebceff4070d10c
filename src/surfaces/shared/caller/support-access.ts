import type { FastifyRequest } from 'fastify';
import type { Context } from '../../../context.ts';
import { ServiceError } from '../../../errors.ts';
import type { Session } from '../../../session/sessions.ts';
import { principalOf } from './authenticate.ts';
import { visibleSession } from './visible-session.ts';

/** Refuses to show what was said in any session while the org has turned that off. */
export function assertTranscriptsOpen(request: FastifyRequest): void {
  if (!principalOf(request).organization.transcriptsAccess)
    throw new ServiceError('forbidden', 'Transcript access is disabled for this organization');
}

/**
 * The same for a person at the dashboard, on routes that keys and tokens use to show end users their own conversations.
 * What a member says to an agent in the playground is their own.
 */
export function assertOpenToMember(request: FastifyRequest, session: Session): void {
  if (principalOf(request).type === 'member' && session.metadata.source !== 'playground') assertTranscriptsOpen(request);
}

/** The same where a session goes on: whoever joins in hears what the agent says next, and could have it repeat the rest. */
export async function assertMayJoin(context: Context, request: FastifyRequest, sessionId: string): Promise<void> {
  const { type, organization } = principalOf(request);
  if (type !== 'member' || organization.transcriptsAccess) return;
  assertOpenToMember(request, await visibleSession(context, request, sessionId));
}
