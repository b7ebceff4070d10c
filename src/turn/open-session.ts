import type { Agent } from '../accounts/agents.ts';
import type { Directory } from '../accounts/directory.ts';
import { requireMaterialized } from '../accounts/releases.ts';
import type { Database } from '../database/database.ts';
import { notFound, orNotFound, ServiceError } from '../errors.ts';
import { isSessionId, newId } from '../ids.ts';
import { instanceKey } from '../instances/instance-key.ts';
import type { PermissionMode } from '../release-config.ts';
import { endUserOf } from '../session/metadata.ts';
import type { NewSessions } from '../session/new-sessions.ts';
import { findSession, type NewSession, reactivateSession, type Session } from '../session/sessions.ts';
import type { Settings } from './settings.ts';

export interface SessionRequest {
  surface: Session['surface'];
  sessionId?: string | undefined;
  metadata: Record<string, unknown>;
  permissionMode?: PermissionMode | null | undefined;
  /** The end user that the caller was verified to act for; wins over the one in the metadata. */
  endUserId?: string | undefined;
  /** The end user is only claimed, by a browser with an anonymous token. */
  isVisitor?: boolean;
  /** Only from a trusted caller: the metadata of a request with an API key, or a minted token. */
  agentInstanceId?: string | undefined;
  /** False: the session is deleted when its turn has ended. */
  stored?: boolean;
  /** Resume only a session of this agent. */
  sameAgent: boolean;
}

/** Whom a session belongs to that has yet to be created. */
export type SessionIdentity = Pick<SessionRequest, 'metadata' | 'endUserId' | 'isVisitor' | 'agentInstanceId'>;

/** What is needed to find and create sessions. */
export interface SessionStore {
  database: Database;
  directory: Directory;
  newSessions: NewSessions;
  settings: Settings;
}

/** Creates the session, pinned to the agent's active release, or resumes the one that `sessionId` names. */
export async function openSession(store: SessionStore, agent: Agent, request: SessionRequest): Promise<Session> {
  const { directory, newSessions, settings } = store;
  const { sessionId, metadata } = request;
  const wantedAgent = request.sameAgent ? agent.id : undefined;
  const existing = await resumeSession(store, agent.orgId, sessionId, wantedAgent);
  if (existing !== undefined) return existing;
  const release = requireMaterialized(await directory.activeRelease(agent));
  const id = sessionId ?? newId('ses_');
  const endUserId = request.endUserId ?? endUserOf(metadata);
  const fresh: NewSession = {
    id,
    orgId: agent.orgId,
    agentId: agent.id,
    releaseVersion: release.version,
    surface: request.surface,
    metadata,
    endUserId,
    isVisitor: endUserId !== undefined && (request.isVisitor ?? false),
    instanceKey: instanceKey(release.config.instance.scope, { ...request, sessionId: id, endUserId }),
    permissionMode: request.permissionMode ?? null,
    currentAgent: release.config.main,
    stored: request.stored ?? true,
  };
  const session = await newSessions.insert(fresh);
  if (session !== undefined) {
    settings.keep(session, release, agent.slug);
    return session;
  }
  // The id was taken since, or belongs to another organization, which must look like a session that does not exist.
  return orNotFound(await resumeSession(store, agent.orgId, id, wantedAgent));
}

/** The session with this id, made active again, or undefined. Throws 404 when it belongs to another agent or its agent was deleted. */
export async function resumeSession(
  { database: { db }, directory }: Pick<SessionStore, 'database' | 'directory'>,
  orgId: number,
  sessionId: string | undefined,
  agentId?: number,
): Promise<Session | undefined> {
  const session = sessionId === undefined ? undefined : await findSession(db, orgId, sessionId);
  if (session === undefined) return undefined;
  if (agentId !== undefined && session.agentId !== agentId) throw notFound();
  if ((await directory.agentById(orgId, session.agentId)) === undefined) throw notFound();
  if (session.status === 'active') return session;
  await reactivateSession(db, orgId, session.id);
  return (await findSession(db, orgId, session.id)) ?? session;
}

export function assertSessionId(sessionId: string | undefined): void {
  if (sessionId === undefined || isSessionId(sessionId)) return;
  throw new ServiceError('invalid', 'session_id: must be 1 to 128 of A-Z a-z 0-9 _ -');
}
