import type { Selectable } from 'kysely';
import { type Actor, recordAudit } from '../audit/record.ts';
import type { Db } from '../database/database.ts';
import type { Schema } from '../database/schema.ts';
import { ServiceError } from '../errors.ts';
import { emitWebhook } from '../outbox/emit-webhook.ts';

/** An org with everything that it, or the operator, may see and set. */
export interface OrganizationSettings {
  id: number;
  slug: string;
  name: string;
  status: 'active' | 'suspended';
  defaultAgent: string | undefined;
  transcriptsAccess: boolean;
  alertThresholds: number[];
  subscription: Subscription | undefined;
  createdAt: Date;
  updatedAt: Date;
}

export interface Subscription {
  plan: string;
  status: 'active' | 'past_due' | 'canceled';
}

export async function readOrganizationSettings(db: Db, orgId: number): Promise<OrganizationSettings> {
  const row = await selectSettings(db).where('organizations.id', '=', orgId).executeTakeFirstOrThrow();
  return settingsFrom(row);
}

/** In the order of their making. `after`: the id that the page before ended with. */
export async function listOrganizationSettings(
  db: Db,
  page: { limit: number; after: number | undefined },
): Promise<OrganizationSettings[]> {
  const rows = await selectSettings(db)
    .where('organizations.id', '>', page.after ?? 0)
    .orderBy('organizations.id')
    .limit(page.limit)
    .execute();
  return rows.map(settingsFrom);
}

/** What the org itself may change. The default agent is named by its slug; null leaves the org without one. */
export async function changeOrganization(
  transaction: Db,
  actor: Actor,
  changes: { name?: string; transcriptsAccess?: boolean; defaultAgent?: string | null; alertThresholds?: number[] },
): Promise<void> {
  const { name, transcriptsAccess, defaultAgent, alertThresholds } = changes;
  await transaction
    .updateTable('organizations')
    .set({
      ...(name === undefined ? {} : { name }),
      ...(transcriptsAccess === undefined ? {} : { transcripts_access: transcriptsAccess }),
      ...(alertThresholds === undefined ? {} : { alert_thresholds: JSON.stringify(alertThresholds) }),
      ...(defaultAgent === undefined ? {} : { default_agent_id: await agentIdOf(transaction, actor.orgId, defaultAgent) }),
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

/** Suspends or resumes the org. Saying what is so already changes nothing. */
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
    .forUpdate()
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

export interface Invoice {
  id: number;
  amountCents: number;
  status: 'paid' | 'payment_failed';
  createdAt: Date;
}

export async function addInvoice(
  transaction: Db,
  actor: Actor,
  input: { amountCents: number; status: 'paid' | 'payment_failed' },
): Promise<Invoice> {
  const row = await transaction
    .insertInto('invoices')
    .values({ org_id: actor.orgId, amount_cents: input.amountCents, status: input.status, created_at: actor.at })
    .returning('id')
    .executeTakeFirstOrThrow();
  await emitWebhook(transaction, actor.orgId, `invoice.${input.status}`, { invoice_id: row.id, amount_cents: input.amountCents });
  return { id: row.id, amountCents: input.amountCents, status: input.status, createdAt: actor.at };
}

async function agentIdOf(transaction: Db, orgId: number, slug: string | null): Promise<number | null> {
  if (slug === null) return null;
  const agent = await transaction
    .selectFrom('agents')
    .select('id')
    .where('org_id', '=', orgId)
    .where('slug', '=', slug)
    .where('deleted_at', 'is', null)
    .executeTakeFirst();
  if (agent === undefined) throw new ServiceError('invalid', `default_agent: there is no agent "${slug}"`);
  return agent.id;
}

function selectSettings(db: Db) {
  return db
    .selectFrom('organizations')
    .leftJoin('agents', (join) => join.onRef('agents.id', '=', 'organizations.default_agent_id').on('agents.deleted_at', 'is', null))
    .selectAll('organizations')
    .select('agents.slug as default_agent');
}

function settingsFrom(row: Selectable<Schema['organizations']> & { default_agent: string | null }): OrganizationSettings {
  const { subscription_plan: plan, subscription_status: status } = row;
  return {
    id: row.id,
    slug: row.slug,
    name: row.name,
    status: row.status,
    defaultAgent: row.default_agent ?? undefined,
    transcriptsAccess: row.transcripts_access,
    alertThresholds: row.alert_thresholds,
    subscription: plan === null || status === null ? undefined : { plan, status },
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}
