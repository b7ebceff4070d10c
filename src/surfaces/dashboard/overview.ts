import { LRUCache } from 'lru-cache';
import { readBudget } from '../../accounts/budgets.ts';
import { timestamp } from '../../clock.ts';
import type { Context } from '../../context.ts';
import { countWaitingApprovals } from '../../session/approvals.ts';
import { type RecentTurns, readRecentTurns } from '../../turn/recent-turns.ts';
import { principalOf, requireKey } from '../shared/caller/authenticate.ts';
import type { Server } from '../shared/fastify.ts';

const config = { family: 'management' as const };
const hourMs = 3_600_000;
/** Requests of several people or tabs at the same moment share one query. */
const freshMs = 2_000;

/** The first page: an org's turns of the last hour, its budget, and how many approvals are waiting. */
export function overviewRoute(server: Server, context: Context): void {
  const { db } = context.database;
  const recent = new LRUCache<number, Promise<RecentTurns>>({ max: 1_000, ttl: freshMs });

  server.get(
    '/dashboard/api/overview',
    { config, onRequest: [requireKey(context, 'sessions:read', 'usage:read', 'budgets:read')], schema: { hide: true } },
    async (request) => {
      const { id: orgId, transcriptsAccess } = principalOf(request).organization;
      const [turns, budget, pending] = await Promise.all([turnsOf(orgId), readBudget(db, orgId), countWaitingApprovals(db, orgId)]);
      return {
        now: timestamp(context.clock.now()),
        turns: {
          count: turns.turns,
          failed: turns.failed,
          sampled: turns.sampled,
          median_ms: turns.medianMs,
          p95_ms: turns.p95Ms,
          minutes: turns.minutes.map(({ minute, turns: count, failed }) => ({ minute: timestamp(minute), turns: count, failed })),
          failures: turns.failures.map(({ sessionId, seq, agent, code, message, at }) => ({
            session_id: sessionId,
            seq,
            agent,
            code,
            // A provider may quote the conversation.
            message: transcriptsAccess ? message : null,
            at: timestamp(at),
          })),
        },
        budget: {
          state: budget.refusal === undefined ? 'ok' : 'exhausted',
          reason: budget.refusal ?? null,
          percent_used: budget.percentUsed,
          spent_micros: budget.spentMicros,
          credits_micros: budget.creditsMicros,
          tokens_used: budget.tokensUsed,
          total_tokens_cap: budget.totalTokensCap,
        },
        pending_approvals: pending,
      };
    },
  );

  function turnsOf(orgId: number): Promise<RecentTurns> {
    const known = recent.get(orgId);
    if (known !== undefined) return known;
    const turns = readRecentTurns(db, orgId, new Date(context.clock.now().getTime() - hourMs));
    recent.set(orgId, turns);
    turns.catch(() => recent.delete(orgId));
    return turns;
  }
}
