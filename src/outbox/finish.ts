import { sql } from 'kysely';
import type { Db } from '../database/database.ts';
import { uuidList } from '../database/id-list.ts';
import { Batches } from '../work/batches.ts';
import type { Outcome } from './attempt.ts';
import { disableEndpoint } from './endpoint-state.ts';
import type { ClaimedDelivery } from './queue.ts';
import { nextAttemptAt, parseRetryAfter } from './schedule.ts';

/** An attempt that ended and is not yet recorded. */
export interface FinishedAttempt {
  delivery: ClaimedDelivery;
  outcome: Outcome;
  startedAt: Date;
}

interface Waiting {
  attempt: FinishedAttempt;
  resolve(): void;
  reject(error: unknown): void;
}

/** Records attempts in batches. */
export class AttemptRecorder {
  private readonly batches: Batches<Waiting>;

  constructor(write: (batch: FinishedAttempt[]) => Promise<void>) {
    this.batches = new Batches(Number.POSITIVE_INFINITY, async (batch) => {
      try {
        await write(batch.map(({ attempt }) => attempt));
        for (const { resolve } of batch) resolve();
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    });
  }

  /** Settles with the batch that the attempt is in. */
  record(attempt: FinishedAttempt): Promise<void> {
    return new Promise((resolve, reject) => {
      this.batches.add({ attempt, resolve, reject });
    });
  }
}

/**
 * Records attempts: a row for each, the next state of its delivery, and what its outcome means for the endpoint. It means nothing if the
 * endpoint was changed or enabled since the attempt began: the endpoint may have another URL now, or its destination may be well again.
 */
export async function finishDeliveries(
  db: Db,
  processId: string,
  finished: readonly FinishedAttempt[],
  now: Date,
  maxFailures: number,
): Promise<void> {
  const endpointIds = [...new Set(finished.flatMap(({ delivery }) => delivery.endpoint_id ?? []))];
  await db.transaction().execute(async (transaction) => {
    const changedAt = await lockEndpoints(transaction, endpointIds);
    const isOutdated = ({ delivery, startedAt }: FinishedAttempt) => {
      const changed = changedAt.get(delivery.endpoint_id);
      // If it was changed in the future, the clock was set back, and the times say nothing.
      return changed !== undefined && startedAt < changed && changed <= now;
    };
    const results = finished.map((entry) => resultOf(entry, now, isOutdated(entry)));
    const judged = judgeEndpoints(finished.filter((entry) => !isOutdated(entry)));
    // A delivery that somebody deletes at this moment is left out. Without the lock it would fail the whole batch.
    const ids = uuidList(results.map(({ id }) => id));
    await sql`select 1 from deliveries where id in ${ids} order by id for no key update`.execute(transaction);
    await writeResults(transaction, processId, results, now);
    if (judged.length > 0) await writeJudgements(transaction, judged, now, maxFailures);
  });
}

/** Locks endpoints before deliveries, as `lockEndpoint` does, and all in the order of their ids. Returns when each was last changed. */
async function lockEndpoints(transaction: Db, ids: readonly number[]): Promise<Map<number | null, Date>> {
  if (ids.length === 0) return new Map();
  const rows = await transaction
    .selectFrom('webhook_endpoints')
    .select(['id', 'updated_at'])
    .where('id', 'in', ids)
    .orderBy('id')
    .forNoKeyUpdate()
    .execute();
  return new Map(rows.map(({ id, updated_at: changedAt }) => [id, changedAt]));
}

function resultOf({ delivery, outcome, startedAt }: FinishedAttempt, now: Date, isOutdated: boolean) {
  const retryAfterMs = parseRetryAfter(outcome.retryAfter, now);
  const isGone = outcome.status === 410 && delivery.endpoint_id !== null && !isOutdated;
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

/** What a batch of attempts says about one endpoint. */
interface Judgement {
  id: number;
  /** One of the attempts succeeded: `failures` counts only those after it. */
  reset: boolean;
  failures: number;
  gone: boolean;
}

/** The outcome of a test or a resend does not count, except for a 410, which always disables the endpoint. */
function judgeEndpoints(finished: readonly FinishedAttempt[]): Judgement[] {
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
 * A failure recorded by a process that lost its claim adds the attempt and changes nothing else: another process has the
 * delivery now. A success counts whoever records it. A resend that fails leaves the schedule as it was; a test has none.
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
      claimed_by = null,
      claimed_manually = false
    from results r where d.id = r.id and (d.claimed_by = ${processId} or r.ok)`.execute(transaction);
}

async function writeJudgements(transaction: Db, judged: readonly Judgement[], now: Date, maxFailures: number): Promise<void> {
  // The row is updated only if its count changes, so that deliveries to a healthy endpoint do not write it every time.
  const { rows } = await sql<{ id: number; org_id: number; consecutive_failures: number; gone: boolean }>`
    update webhook_endpoints e set consecutive_failures = case when j.reset then 0 else e.consecutive_failures end + j.failures
    from json_to_recordset(${JSON.stringify(judged)}::json) as j (id integer, reset boolean, failures integer, gone boolean)
    where e.id = j.id and (j.gone or j.failures > 0 or e.consecutive_failures > 0)
    returning e.id, e.org_id, e.consecutive_failures, j.gone`.execute(transaction);
  // Disabling locks the audit chain of the org until the commit: always in the same order, so that no two processes deadlock.
  for (const row of rows.toSorted((a, b) => a.org_id - b.org_id || a.id - b.id)) {
    const actor = { orgId: row.org_id, at: now };
    if (row.gone) await disableEndpoint(transaction, actor, row.id, 'The destination answered 410 Gone.');
    else if (row.consecutive_failures >= maxFailures)
      await disableEndpoint(transaction, actor, row.id, `${row.consecutive_failures} consecutive failures.`);
  }
}
