import type { FastifyRequest } from 'fastify';
import type { TokenPrincipal } from '../../../accounts/principal.ts';
import type { Context } from '../../../context.ts';
import { notFound } from '../../../errors.ts';
import { findSession, type Session } from '../../../session/sessions.ts';
import type { SessionSetting } from '../../../turn/settings.ts';
import { principalOf } from './authenticate.ts';

/** The session that the path names, if the caller may see it: of its org, below its agent, and for a token of its end user. */
export async function visibleSession(context: Context, request: FastifyRequest, sessionId: string): Promise<Session> {
  const { organization } = principalOf(request);
  const session = visible(request, await findSession(context.database.db, organization.id, sessionId));
  await assertAgentIsThere(context, request, session);
  return session;
}

/** The session, if it is there and the caller may see it; otherwise the one 404. */
export function visible(request: FastifyRequest, session: Session | undefined): Session {
  if (session === undefined || !isVisible(request, session)) throw notFound();
  return session;
}

/** Asked of a session of the caller's org. */
export function isVisible(request: FastifyRequest, session: SessionOwner): boolean {
  const principal = principalOf(request);
  if (request.agent !== undefined && session.agentId !== request.agent.id) return false;
  return principal.type !== 'token' || isOwn(principal, session);
}

/** The same question for a turn, answered from memory: what it asks of a session never changes while it lives. */
export async function visibleSetting(context: Context, request: FastifyRequest, sessionId: string): Promise<SessionSetting> {
  const setting = await context.settings.of(principalOf(request).organization.id, sessionId);
  if (setting === undefined || !isVisible(request, setting)) throw notFound();
  await assertAgentIsThere(context, request, setting);
  return setting;
}

/** A deleted agent takes its sessions with it, also from routes that do not name it. */
async function assertAgentIsThere(
  { directory }: Context,
  { agent }: FastifyRequest,
  { orgId, agentId }: { orgId: number; agentId: number },
): Promise<void> {
  if (agent === undefined && (await directory.agentById(orgId, agentId)) === undefined) throw notFound();
}

type SessionOwner = Pick<Session, 'agentId' | 'endUserId' | 'isVisitor'>;

/** A verified end user sees what is theirs; an anonymous caller what belongs to nobody that was verified. */
function isOwn({ endUserId }: TokenPrincipal, session: SessionOwner): boolean {
  const verified = session.isVisitor ? undefined : session.endUserId;
  return endUserId === verified;
}
