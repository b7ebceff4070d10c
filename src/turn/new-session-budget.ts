import type { Agent } from '../accounts/agents.ts';
import type { Directory } from '../accounts/directory.ts';
import type { Db } from '../database/database.ts';
import { instanceKey } from '../instances/instance-key.ts';
import { checkBudget } from './budget.ts';
import { endUserOf, type SessionRequest } from './open-session.ts';
import { runsOnOwnKey } from './own-key.ts';

/**
 * Throws when the first turn of a session that is yet to be opened would be refused: asked before anything is written, and
 * before the release, as the order of checks has it.
 */
export async function checkBudgetOfNew(
  db: Db,
  directory: Directory,
  agent: Agent,
  request: Pick<SessionRequest, 'metadata' | 'endUserId' | 'isVisitor' | 'agentInstanceId'>,
): Promise<void> {
  const { id: agentId, orgId, activeVersion } = agent;
  const release = activeVersion === undefined ? undefined : await directory.release(orgId, agentId, activeVersion);
  const key = instanceKey(release?.config.instance.scope ?? 'session', {
    sessionId: '',
    endUserId: request.endUserId ?? endUserOf(request.metadata) ?? null,
    isVisitor: request.isVisitor ?? false,
    agentInstanceId: request.agentInstanceId ?? null,
  });
  const paidByCustomer = release !== undefined && (await runsOnOwnKey(directory, orgId, release.config));
  await checkBudget(db, { orgId, agentId, instanceKey: key }, paidByCustomer);
}
