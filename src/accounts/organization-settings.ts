import type { InferResult } from 'kysely';
import type { Db } from '../database/database.ts';

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
  creditsMicros: number | null;
  totalTokensCap: number | null;
  tokensUsed: number;
  spentMicros: number;
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

/** Oldest first. `after` is the id of the last org on the previous page. */
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

function selectSettings(db: Db) {
  return db
    .selectFrom('organizations')
    .innerJoin('budgets', 'budgets.org_id', 'organizations.id')
    .leftJoin('agents', (join) => join.onRef('agents.id', '=', 'organizations.default_agent_id').on('agents.deleted_at', 'is', null))
    .selectAll('organizations')
    .select(['budgets.credits_micros', 'budgets.total_tokens_cap', 'budgets.tokens_used', 'budgets.spent_micros'])
    .select('agents.slug as default_agent');
}

function settingsFrom(row: InferResult<ReturnType<typeof selectSettings>>[number]): OrganizationSettings {
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
    creditsMicros: row.credits_micros,
    totalTokensCap: row.total_tokens_cap,
    tokensUsed: row.tokens_used,
    spentMicros: row.spent_micros,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}
