import { sql } from 'kysely';
import type { Db } from '../database/database.ts';
import type { Outcome } from './attempt.ts';
import { disableEndpoint } from './endpoint-state.ts';
import type { Claimed } from './queue.ts';
import { nextAttemptAt, parseRetryAfter } from './schedule.ts';

/** An attempt that ended, not yet written. */
export interface Finished {
  delivery: Claimed;
  outcome: Outcome;
  startedAt: Date;
}

/** Writes what attempts came to: each one's row, what is next for its delivery, and what it says about its endpoint. */
export async function finishDeliveries(
  db: Db,
  processId: string,
  finished: readonly Finished[],
  now: Date,
  maxFailures: number,
): Promise<void> {
  const results = finished.map((entry) => resultOf(entry, now));
  const judged = judgeEndpoints(finished);
  await db.transaction().execute(async (transaction) => {
    if (judged.length > 0) {
      await sql`select 1 from webhook_endpoints where id in
        (select (value ->> 'id')::integer from json_array_elements(${JSON.stringify(judged)}::json) value) order by id for no key update`.execute(
        transaction,
      );
    }
    await writeResults(transaction, processId, results, now);
    if (judged.length > 0) await writeJudgements(transaction, judged, now, maxFailures);
  });
}

function resultOf({ delivery, outcome, startedAt }: Finished, now: Date) {
  const retryAfterMs = parseRetryAfter(outcome.retryAfter, now);
  const isGone = outcome.status === 410 && delivery.endpoint_id !== null;
  const next = isGone ? undefined : nextAttemptAt(now, delivery.attempt_count + 1, retryAfterMs);
  return {
    id: delivery.id,
    manual: delivery.manual,
    ok: outcome.ok,
    next_at: next?.toISOString() ?? null,
    started_at: startedAt.toISOString(),
    duration_ms: outcome.durationMs,
    status: outcome.status,
    error: outcome.error,
    excerpt: outcome.excerpt,
  };
}

interface Judgement {
  id: number;
  /** A success came among these attempts: only the failures after it count. */
  reset: boolean;
  failures: number;
  gone: boolean;
}

/** Tests and resends say nothing about an endpoint, except that 410 is final whoever asks. */
function judgeEndpoints(finished: readonly Finished[]): Judgement[] {
  const judged = new Map<number, Judgement>();
  for (const { delivery, outcome } of finished) {
    if (delivery.endpoint_id === null || (delivery.manual && outcome.status !== 410)) continue;
    const endpoint = judged.get(delivery.endpoint_id) ?? { id: delivery.endpoint_id, reset: false, failures: 0, gone: false };
    judged.set(delivery.endpoint_id, endpoint);
    if (outcome.ok) Object.assign(endpoint, { reset: true, failures: 0 });
    else if (!delivery.manual) endpoint.failures += 1;
    if (outcome.status === 410) endpoint.gone = true;
  }
  return [...judged.values()];
}

/**
 * A failure written by a process that lost its claim adds its attempt and changes nothing: another has the delivery now. A
 * success counts whoever wrote it. A resend that fails leaves the schedule where it was, and a test has none.
 */
async function writeResults(transaction: Db, processId: string, results: readonly unknown[], now: Date): Promise<void> {
  await sql`
    with results as (
      select * from json_to_recordset(${JSON.stringify(results)}::json) as r (id uuid, manual boolean, ok boolean, next_at timestamptz,
        started_at timestamptz, duration_ms integer, status integer, error text, excerpt text)
    ), written as (
      insert into delivery_attempts (delivery_id, number, manual, started_at, duration_ms, status, error, response_excerpt)
      select d.id, 1 + (select count(*) from delivery_attempts a where a.delivery_id = d.id), r.manual, r.started_at, r.duration_ms,
        r.status, r.error, r.excerpt
      from results r join deliveries d on d.id = r.id
      on conflict do nothing
    )
    update deliveries d set
      state = case when r.ok then 'delivered' when r.manual and not d.is_test then d.state when r.manual or r.next_at is null then 'failed' else 'pending' end,
      attempt_count = d.attempt_count + case when r.manual then 0 else 1 end,
      next_attempt_at = case when r.ok or d.is_test then null when r.manual then d.next_attempt_at else r.next_at end,
      due_at = case
        when d.resend_requested then ${now}
        when r.ok or d.is_test then null
        when r.manual then d.next_attempt_at
        else r.next_at end,
      delivered_at = case when r.ok then coalesce(d.delivered_at, ${now}) else d.delivered_at end,
      claimed_by = null
    from results r where d.id = r.id and (d.claimed_by = ${processId} or r.ok)`.execute(transaction);
}

async function writeJudgements(transaction: Db, judged: readonly Judgement[], now: Date, maxFailures: number): Promise<void> {
  // A healthy endpoint's row is not written for every delivery: only a change of its count is.
  const { rows } = await sql<{ id: number; org_id: number; consecutive_failures: number; gone: boolean }>`
    update webhook_endpoints e set consecutive_failures = case when j.reset then 0 else e.consecutive_failures end + j.failures
    from json_to_recordset(${JSON.stringify(judged)}::json) as j (id integer, reset boolean, failures integer, gone boolean)
    where e.id = j.id and (j.gone or j.failures > 0 or e.consecutive_failures > 0)
    returning e.id, e.org_id, e.consecutive_failures, j.gone`.execute(transaction);
  // Each takes the audit chain of its org until the commit: in one order, or two processes could wait for each other.
  for (const row of rows.toSorted((a, b) => a.org_id - b.org_id || a.id - b.id)) {
    const actor = { orgId: row.org_id, at: now };
    if (row.gone) await disableEndpoint(transaction, actor, row.id, 'The destination answered 410 Gone.');
    else if (row.consecutive_failures >= maxFailures)
      await disableEndpoint(transaction, actor, row.id, `${row.consecutive_failures} consecutive failures.`);
  }
}
