import { sql } from 'kysely';
import type { Db } from '../database/database.ts';
import { ServiceError } from '../errors.ts';

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

/** Throws when the org may not run another turn now. Reserves nothing. A turn on the customer's own key needs no credits. */
export async function checkBudget(
  db: Db,
  of: { orgId: number; agentId: number; instanceKey: string },
  ownKey: boolean = false,
): Promise<void> {
  const { rows } = await sql<{ refusal: string | null }>`
    select budget_refusal(${of.orgId}::integer, ${of.agentId}::integer, ${of.instanceKey}::text, ${ownKey ? 0 : 1}, 1) as refusal`.execute(
    db,
  );
  const refusal = rows[0]?.refusal;
  if (typeof refusal === 'string') throw budgetError(refusal);
}
