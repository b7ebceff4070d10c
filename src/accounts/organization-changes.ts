import { type Actor, recordAudit } from '../audit/record.ts';
import type { Db } from '../database/database.ts';
import { ServiceError } from '../errors.ts';
import { emitWebhook } from '../outbox/emit-webhook.ts';
import type { Subscription } from './organization-settings.ts';

interface OrganizationChanges {
  name: string | undefined;
  transcriptsAccess: boolean | undefined;
  /** A slug; null leaves the org without one. */
  defaultAgent: string | null | undefined;
  alertThresholds: number[] | undefined;
}

/** Changes what the org's own members and keys may change; an undefined field is left unchanged. */
export async function changeOrganization(transaction: Db, actor: Actor, changes: OrganizationChanges): Promise<void> {
  const { name, transcriptsAccess, defaultAgent, alertThresholds } = changes;
  await transaction
    .updateTable('organizations')
    .set({
      name,
      transcripts_access: transcriptsAccess,
      alert_thresholds: alertThresholds && JSON.stringify(alertThresholds),
      default_agent_id: typeof defaultAgent === 'string' ? await agentIdOf(transaction, actor.orgId, defaultAgent) : defaultAgent,
      updated_at: actor.at,
    })
    .where('id', '=', actor.orgId)
    .execute();
  await recordAudit(transaction, actor, {
    action: 'organization.updated',
    subjectType: 'organization',
    subjectId: actor.orgId,
    metadata: {
      changes: {
        name,
        support_access: transcriptsAccess === undefined ? undefined : { transcripts: transcriptsAccess },
        default_agent: defaultAgent,
        alert_thresholds: alertThresholds,
      },
    },
  });
}

/**
 * Call this before changing several things of an org. The first audit event locks the org's chain until the commit, and another
 * change that waits for the chain may hold a row that is needed next: locking the rows first avoids that deadlock.
 *
 * They are locked in the order in which they are named. The org comes last: a turn that pauses holds the budget and waits for its
 * agent, and whoever deletes the default agent holds that and waits for the org.
 *
 * NO KEY UPDATE still lets others write rows that refer to the org. With UPDATE, a batch of turns that holds the budget and writes
 * it twice would deadlock with us: for the second write, PostgreSQL checks the foreign key and so needs the org's row.
 */
export async function lockOrganization(transaction: Db, orgId: number): Promise<void> {
  await transaction
    .selectFrom('budgets')
    .innerJoin('organizations', 'organizations.id', 'budgets.org_id')
    .select('organizations.id')
    .where('organizations.id', '=', orgId)
    .forNoKeyUpdate()
    .execute();
}

/** Suspends or resumes the org. Setting the status it already has changes nothing. */
export async function changeStatus(transaction: Db, actor: Actor, status: 'active' | 'suspended'): Promise<void> {
  const changed = await transaction
    .updateTable('organizations')
    .set({ status, updated_at: actor.at })
    .where('id', '=', actor.orgId)
    .where('status', '!=', status)
    .returning('id')
    .executeTakeFirst();
  if (changed === undefined) return;
  const action = status === 'suspended' ? 'organization.suspended' : 'organization.resumed';
  await recordAudit(transaction, actor, { action, subjectType: 'organization', subjectId: actor.orgId });
  await emitWebhook(transaction, actor.orgId, action, { status });
}

export async function changeSubscription(transaction: Db, actor: Actor, subscription: Subscription): Promise<void> {
  const before = await transaction
    .selectFrom('organizations')
    .select(['subscription_plan', 'subscription_status'])
    .where('id', '=', actor.orgId)
    .forNoKeyUpdate()
    .executeTakeFirstOrThrow();
  await transaction
    .updateTable('organizations')
    .set({ subscription_plan: subscription.plan, subscription_status: subscription.status, updated_at: actor.at })
    .where('id', '=', actor.orgId)
    .execute();
  await recordAudit(transaction, actor, {
    action: 'subscription.updated',
    subjectType: 'subscription',
    subjectId: actor.orgId,
    metadata: { plan: subscription.plan, status: subscription.status, previous_status: before.subscription_status },
  });
  const first = before.subscription_status === null;
  const type = subscription.status === 'canceled' ? 'canceled' : first ? 'created' : 'updated';
  await emitWebhook(transaction, actor.orgId, `subscription.${type}`, { plan: subscription.plan, status: subscription.status });
}

async function agentIdOf(transaction: Db, orgId: number, slug: string): Promise<number> {
  const agent = await transaction
    .selectFrom('agents')
    .select('id')
    .where('org_id', '=', orgId)
    .where('slug', '=', slug)
    .where('deleted_at', 'is', null)
    // A concurrent deletion of the agent waits for this commit, and then clears the default.
    .forShare()
    .executeTakeFirst();
  if (agent === undefined) throw new ServiceError('invalid', `default_agent: there is no agent "${slug}"`);
  return agent.id;
}
