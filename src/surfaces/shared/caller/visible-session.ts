import type { FastifyRequest } from 'fastify';
import type { TokenPrincipal } from '../../../accounts/principal.ts';
import type { Context } from '../../../context.ts';
import { notFound } from '../../../errors.ts';
import { findSession, type Session } from '../../../session/sessions.ts';
import type { SessionSetting } from '../../../turn/settings.ts';
import { principalOf } from './authenticate.ts';

/** Finds a session that the caller can see: of its org, of the agent in the path, and with a token of its end user. Otherwise 404. */
export async function visibleSession(context: Context, request: FastifyRequest, sessionId: string): Promise<Session> {
  const { organization } = principalOf(request);
  const session = requireVisible(request, await findSession(context.database.db, organization.id, sessionId));
  await assertAgentExists(context, request, session);
  return session;
}

/** Throws the same 404 for a session that does not exist and for one that the caller cannot see. */
export function requireVisible(request: FastifyRequest, session: Session | undefined): Session {
  if (session === undefined || !isVisible(request, session)) throw notFound();
  return session;
}

/** The session must be of the caller's org. */
export function isVisible(request: FastifyRequest, session: SessionOwner): boolean {
  const principal = principalOf(request);
  if (request.agent !== undefined && session.agentId !== request.agent.id) return false;
  return principal.type !== 'token' || isOwn(principal, session);
}

/** Like `visibleSession`, from memory: whose session it is never changes while it exists. */
export async function visibleSetting(context: Context, request: FastifyRequest, sessionId: string): Promise<SessionSetting> {
  const setting = await context.settings.of(principalOf(request).organization.id, sessionId);
  if (setting === undefined || !isVisible(request, setting)) throw notFound();
  await assertAgentExists(context, request, setting);
  return setting;
}

/** The sessions of a deleted agent are not found, either. On routes that name the agent, it was looked up before. */
async function assertAgentExists(
  { directory }: Context,
  { agent }: FastifyRequest,
  { orgId, agentId }: { orgId: number; agentId: number },
): Promise<void> {
  if (agent === undefined && (await directory.agentById(orgId, agentId)) === undefined) throw notFound();
}

type SessionOwner = Pick<Session, 'agentId' | 'endUserId' | 'isVisitor'>;

/** A verified end user sees their own sessions; an anonymous visitor those that belong to no verified end user. */
function isOwn({ endUserId }: TokenPrincipal, session: SessionOwner): boolean {
  const verified = session.isVisitor ? undefined : session.endUserId;
  return endUserId === verified;
}
