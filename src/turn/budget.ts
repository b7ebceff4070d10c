import type { Agent } from '../accounts/agents.ts';
import { budgetRefusal } from '../accounts/budgets.ts';
import type { Directory } from '../accounts/directory.ts';
import type { Db } from '../database/database.ts';
import { ServiceError } from '../errors.ts';
import { type Instance, instanceKey } from '../instances/instance-key.ts';
import { endUserOf } from '../session/metadata.ts';
import { SharedWork } from '../work/shared-work.ts';
import type { SessionIdentity, SessionStore } from './open-session.ts';

const sentences: Record<string, string> = {
  credits_exhausted: 'The prepaid balance is exhausted.',
  total_tokens_cap_reached: 'The token cap has been reached.',
  subscription_past_due: 'The subscription is past due.',
};

/** Spec 7.1: `error` is the stable code, `reason` is diagnostic. */
export function budgetError(reason: string): ServiceError {
  if (reason === 'instance_spend_cap_exceeded')
    return new ServiceError('budget', 'The spending cap of this instance has been reached.', { code: reason });
  return new ServiceError('budget', sentences[reason] ?? 'The budget is exhausted.', { code: 'budget_exhausted', fields: { reason } });
}

/** Throws when the budget does not allow another turn now. Reserves nothing. */
export async function checkBudget(db: Db, payer: Instance, needsCredits: boolean): Promise<void> {
  const refusal = await budgetRefusal(db, payer, needsCredits ? 1 : 0);
  if (refusal !== undefined) throw budgetError(refusal);
}

/**
 * Throws when the budget does not allow the first turn of a session that has yet to be created. Checked before anything is written
 * and, as the contract orders the checks, before the release is.
 */
export async function checkBudgetOfNew(
  { database, directory, settings }: Pick<SessionStore, 'database' | 'directory' | 'settings'>,
  agent: Agent,
  identity: SessionIdentity,
): Promise<void> {
  await checkTogether(database.db, await payerOfNew(directory, agent, identity), await settings.needsCredits(agent));
}

/** The instance that pays for the turns of a session that has yet to be created. Without a release it is one of its own. */
export async function payerOfNew(directory: Directory, agent: Agent, identity: SessionIdentity): Promise<Instance> {
  const release = await directory.activeRelease(agent);
  const endUserId = identity.endUserId ?? endUserOf(identity.metadata);
  const key = instanceKey(release?.config.instance.scope ?? 'session', { ...identity, sessionId: '', endUserId });
  return { orgId: agent.orgId, agentId: agent.id, instanceKey: key };
}

/** Equal checks at the same moment share one query. Its answer may be a little old: what counts is the check at admission. */
function checkTogether(db: Db, payer: Instance, needsCredits: boolean): Promise<void> {
  const checks = checksOf.get(db) ?? new SharedWork<void>();
  checksOf.set(db, checks);
  return checks.run(`${payer.orgId} ${payer.agentId} ${needsCredits} ${payer.instanceKey}`, () => checkBudget(db, payer, needsCredits));
}

const checksOf = new WeakMap<Db, SharedWork<void>>();
