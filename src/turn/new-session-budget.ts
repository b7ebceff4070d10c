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
  const { id: agentId, orgId } = agent;
  const release = await directory.activeRelease(agent);
  const key = instanceKey(release?.config.instance.scope ?? 'session', {
    sessionId: '',
    endUserId: request.endUserId ?? endUserOf(request.metadata) ?? null,
    isVisitor: request.isVisitor ?? false,
    agentInstanceId: request.agentInstanceId ?? null,
  });
  const paidByCustomer = release !== undefined && (await runsOnOwnKey(directory, orgId, release.config));
  await checkTogether(db, { orgId, agentId, instanceKey: key }, paidByCustomer);
}

/** Who asks the same while it is being asked gets the same answer: it is a first look, and the one that counts is at admission. */
function checkTogether(db: Db, of: Parameters<typeof checkBudget>[1], paidByCustomer: boolean): Promise<void> {
  const checks = underWay.get(db) ?? new Map<string, Promise<void>>();
  underWay.set(db, checks);
  const name = `${of.orgId} ${of.agentId} ${paidByCustomer} ${of.instanceKey}`;
  const known = checks.get(name);
  if (known !== undefined) return known;
  const check = checkBudget(db, of, paidByCustomer).finally(() => checks.delete(name));
  checks.set(name, check);
  return check;
}

const underWay = new WeakMap<Db, Map<string, Promise<void>>>();
