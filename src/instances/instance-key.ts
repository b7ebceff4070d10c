import type { InstanceScope } from '../release-config.ts';

/** One durable instance of an agent, which has its own files and its own spending. */
export interface Instance {
  orgId: number;
  agentId: number;
  instanceKey: string;
}

export interface InstanceIdentity {
  sessionId: string;
  endUserId: string | undefined;
  /** A browser with an anonymous token claims to be this end user: it shares nothing with the verified one of the same id. */
  isVisitor?: boolean;
  /** Named by a trusted caller. It takes precedence over the release's scope. */
  agentInstanceId?: string | undefined;
}

/** Which durable instance of the agent a session belongs to: sessions with the same key share their files. */
export function instanceKey(scope: InstanceScope, { sessionId, endUserId, isVisitor, agentInstanceId }: InstanceIdentity): string {
  if (agentInstanceId !== undefined) return `instance:${agentInstanceId}`;
  if (scope === 'shared') return 'shared';
  // Without an end user there is nobody to share with.
  if (scope === 'end_user' && endUserId !== undefined) return `${isVisitor ? 'visitor' : 'end_user'}:${endUserId}`;
  return `session:${sessionId}`;
}
