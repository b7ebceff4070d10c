import { type Budget, changeBudget, readBudget } from '../../accounts/budgets.ts';
import { timestamp } from '../../clock.ts';
import type { Context } from '../../context.ts';
import { principalOf, requireKey } from '../shared/caller/authenticate.ts';
import { change } from '../shared/change.ts';
import type { Server } from '../shared/fastify.ts';
import { answered } from '../shared/schemas/answers.ts';
import { amountField } from '../shared/schemas/fields.ts';
import { Type } from '../shared/schemas/type.ts';

const tags = ['Budget and usage'];
const config = { family: 'management' as const };

const budgetObject = Type.Object(
  {
    state: Type.Enum(['ok', 'exhausted']),
    reason: Type.Union([Type.String(), Type.Null()], { description: 'Why the next turn would be refused.' }),
    percent_used: Type.Integer({ description: 'Of the cap that is closest to being reached.' }),
    credits_micros: Type.Union([Type.Integer(), Type.Null()], {
      description: 'Prepaid credits, set by the operator; null means unlimited.',
    }),
    credits_remaining_micros: Type.Union([Type.Integer(), Type.Null()]),
    total_tokens_cap: amountField,
    tokens_used: Type.Integer(),
    instance_spend_cap_micros: amountField,
    spent_micros: Type.Integer(),
    reserved_tokens: Type.Integer({ description: 'Held by running turns.' }),
    reserved_micros: Type.Integer(),
    file_bytes: Type.Integer({ description: 'Of the files in all workspaces.' }),
    updated_at: Type.String(),
  },
  { title: 'Budget' },
);

const updateBody = Type.Object(
  { total_tokens_cap: Type.Optional(amountField), instance_spend_cap_micros: Type.Optional(amountField) },
  {
    title: 'UpdateBudget',
    additionalProperties: false,
    description: 'null removes a cap; an absent field is left unchanged.',
    examples: [{ total_tokens_cap: 1_000_000, instance_spend_cap_micros: 5_000_000 }],
  },
);

const answer = Type.Object({ budget: budgetObject });

export function budgetRoutes(server: Server, context: Context): void {
  server.get(
    '/api/budget',
    {
      config,
      onRequest: [requireKey(context, 'budgets:read')],
      schema: { tags, summary: 'Fetch the budget', response: answered(200, answer) },
    },
    async (request) => ({ budget: showBudget(await readBudget(context.database.db, principalOf(request).organization.id)) }),
  );

  server.put(
    '/api/budget',
    {
      config,
      onRequest: [requireKey(context, 'budgets:write')],
      schema: { tags, summary: 'Change the budget', body: updateBody, response: answered(200, answer) },
    },
    async (request) => {
      const { total_tokens_cap: totalTokensCap, instance_spend_cap_micros: instanceSpendCapMicros } = request.body;
      const budget = await change(context, request, async (transaction, actor) => {
        await changeBudget(transaction, actor, { totalTokensCap, instanceSpendCapMicros });
        return readBudget(transaction, actor.orgId);
      });
      return { budget: showBudget(budget) };
    },
  );
}

function showBudget(budget: Budget) {
  const { creditsMicros } = budget;
  return {
    state: budget.refusal === undefined ? 'ok' : 'exhausted',
    reason: budget.refusal ?? null,
    percent_used: budget.percentUsed,
    credits_micros: creditsMicros,
    credits_remaining_micros: creditsMicros === null ? null : Math.max(0, creditsMicros - budget.creditsSpentMicros),
    total_tokens_cap: budget.totalTokensCap,
    tokens_used: budget.tokensUsed,
    instance_spend_cap_micros: budget.instanceSpendCapMicros,
    spent_micros: budget.spentMicros,
    reserved_tokens: budget.reservedTokens,
    reserved_micros: budget.reservedMicros,
    file_bytes: budget.fileBytes,
    updated_at: timestamp(budget.updatedAt),
  };
}
