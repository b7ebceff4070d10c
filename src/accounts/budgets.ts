import { sql } from 'kysely';
import { type Actor, recordAudit } from '../audit/record.ts';
import type { Db } from '../database/database.ts';
import { emitWebhook } from '../outbox/emit-webhook.ts';

export type BudgetRefusal = 'subscription_past_due' | 'credits_exhausted' | 'total_tokens_cap_reached' | 'instance_spend_cap_exceeded';

export interface Budget {
  creditsMicros: number | null;
  creditsSpentMicros: number;
  totalTokensCap: number | null;
  tokensUsed: number;
  instanceSpendCapMicros: number | null;
  spentMicros: number;
  reservedTokens: number;
  reservedMicros: number;
  /** Of all files in the workspaces of the org. */
  fileBytes: number;
  percentUsed: number;
  /** Why the org's next turn would be refused, or undefined. */
  refusal: BudgetRefusal | undefined;
  updatedAt: Date;
}

/** null removes a cap; an undefined field is left unchanged. */
export interface BudgetChanges {
  creditsMicros?: number | null | undefined;
  totalTokensCap?: number | null | undefined;
  instanceSpendCapMicros?: number | null | undefined;
}

export async function readBudget(db: Db, orgId: number): Promise<Budget> {
  const row = await db.selectFrom('budgets').selectAll().where('org_id', '=', orgId).executeTakeFirstOrThrow();
  return {
    creditsMicros: row.credits_micros,
    creditsSpentMicros: row.credits_spent_micros,
    totalTokensCap: row.total_tokens_cap,
    tokensUsed: row.tokens_used,
    instanceSpendCapMicros: row.instance_spend_cap_micros,
    spentMicros: row.spent_micros,
    reservedTokens: row.reserved_tokens,
    reservedMicros: row.reserved_micros,
    fileBytes: row.file_bytes,
    percentUsed: percentUsed(row),
    refusal: await budgetRefusal(db, { orgId }, 1),
    updatedAt: row.updated_at,
  };
}

/**
 * Why a turn that takes `creditMicros` of the prepaid credits would be refused now, or undefined. Without an agent and an
 * instance it is answered for an instance that has not spent anything.
 */
export async function budgetRefusal(
  db: Db,
  { orgId, agentId = 0, instanceKey = '' }: { orgId: number; agentId?: number; instanceKey?: string },
  creditMicros: number,
): Promise<BudgetRefusal | undefined> {
  const { rows } = await sql<{ refusal: BudgetRefusal | null }>`
    select budget_refusal(${orgId}::integer, ${agentId}::integer, ${instanceKey}::text, ${creditMicros}, 1) as refusal`.execute(db);
  return rows[0]?.refusal ?? undefined;
}

/** Changes caps. When a cap of the whole org changes, its alerts start over, and those that the usage already exceeds are sent now. */
export async function changeBudget(transaction: Db, actor: Actor, changes: BudgetChanges): Promise<void> {
  const { creditsMicros, totalTokensCap, instanceSpendCapMicros } = changes;
  const before = await transaction
    .selectFrom('budgets')
    .selectAll()
    .where('org_id', '=', actor.orgId)
    .forUpdate()
    .executeTakeFirstOrThrow();
  // Setting the credits, even to the same amount, resets what was spent of them, so their alerts start over too.
  const restartsAlerts =
    typeof creditsMicros === 'number' ||
    (creditsMicros === null && before.credits_micros !== null) ||
    (totalTokensCap !== undefined && totalTokensCap !== before.total_tokens_cap);
  const after = await transaction
    .updateTable('budgets')
    .set({
      credits_micros: creditsMicros,
      credits_spent_micros: creditsMicros === undefined ? undefined : 0,
      total_tokens_cap: totalTokensCap,
      instance_spend_cap_micros: instanceSpendCapMicros,
      threshold_fired: restartsAlerts ? 0 : undefined,
      updated_at: actor.at,
    })
    .where('org_id', '=', actor.orgId)
    .returningAll()
    .executeTakeFirstOrThrow();
  if (restartsAlerts) await reportThresholds(transaction, actor.orgId, percentUsed(after));
  await recordAudit(transaction, actor, {
    action: 'budget.updated',
    subjectType: 'budget',
    subjectId: actor.orgId,
    metadata: { before: capsOf(before), after: capsOf(after) },
  });
}

type Caps = { credits_micros: number | null; total_tokens_cap: number | null; instance_spend_cap_micros: number | null };

function capsOf({ credits_micros, total_tokens_cap, instance_spend_cap_micros }: Caps): Caps {
  return { credits_micros, total_tokens_cap, instance_spend_cap_micros };
}

function percentUsed(row: Caps & { tokens_used: number; credits_spent_micros: number }): number {
  const share = (used: number, cap: number | null) => (cap === null ? 0 : cap === 0 ? 100 : Math.floor((used * 100) / cap));
  return Math.min(1_000, Math.max(share(row.tokens_used, row.total_tokens_cap), share(row.credits_spent_micros, row.credits_micros)));
}

async function reportThresholds(transaction: Db, orgId: number, percent: number): Promise<void> {
  const { alert_thresholds: thresholds } = await transaction
    .selectFrom('organizations')
    .select('alert_thresholds')
    .where('id', '=', orgId)
    .executeTakeFirstOrThrow();
  // Reaching the cap is always reported, whatever thresholds the org has set.
  const crossed = [...new Set([...thresholds, 100])].filter((threshold) => threshold <= percent).sort((a, b) => a - b);
  for (const threshold of crossed) {
    const type = threshold === 100 ? 'usage.budget_exhausted' : 'usage.budget_threshold_reached';
    await emitWebhook(transaction, orgId, type, { threshold, percent_used: percent });
  }
  const highest = crossed.at(-1);
  if (highest !== undefined) {
    await transaction.updateTable('budgets').set({ threshold_fired: highest }).where('org_id', '=', orgId).execute();
  }
}
