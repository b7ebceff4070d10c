import { sql } from 'kysely';
import type { Db } from '../database/database.ts';
import { dropFilesOfDeletedAgents, dropFilesStoredAhead } from '../instances/workspace.ts';
import { dropEmptied } from '../session/deleted-responses.ts';
import { dropLeftovers } from '../session/drop-sessions.ts';
import type { Feed } from '../session/feed.ts';
import type { Logger } from '../telemetry/logger.ts';
import { SharedWork } from '../work/shared-work.ts';

const everyMs = 10 * 60_000;

/**
 * Every ten minutes, deletes what is no longer needed: answers kept for repeated requests, ended sign-ins, counts of requests of the
 * sign-in page, sessions that were not to be stored or whose responses were all deleted, the files of deleted agents, and those that a
 * turn stored and did not use; and stops the sessions of deleted agents.
 */
export function sweepExpiredRows(db: Db, feed: Feed, logger: Logger, stopAbandoned: () => Promise<void>): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const { signal } = stopping;
  const steps = [
    () => deleteExpiredRows(db, { signal }),
    () => dropLeftovers(db, feed, signal),
    () => dropEmptied(db, feed, signal),
    () => dropFilesOfDeletedAgents(db, { signal }),
    () => dropFilesStoredAhead(db, signal),
    stopAbandoned,
  ];
  // One at a time: with much to delete, a sweep may take longer than the pause between two.
  const sweeping = new SharedWork<void>();
  const timer = setInterval(() => void sweeping.run('sweep', () => sweep(steps, logger, signal)), everyMs).unref();
  return {
    /** Waits for one batch at most: a sweep that is under way leaves the rest to the next. */
    async stop() {
      clearInterval(timer);
      stopping.abort();
      await sweeping.ended();
    },
  };
}

/** One step after the other. One that fails is tried again at the next sweep, and does not keep the others from being done. */
async function sweep(steps: readonly (() => Promise<void>)[], logger: Logger, signal: AbortSignal): Promise<void> {
  for (const step of steps) {
    if (signal.aborted) return;
    await step().catch((error: unknown) => logger.warn({ err: error }, 'could not delete expired rows; will retry'));
  }
}

/** In small statements, so that none delays the turns that write to the same tables. */
export async function deleteExpiredRows(db: Db, { batch = 1_000, signal }: { batch?: number; signal?: AbortSignal } = {}): Promise<void> {
  const statements = [
    // In the order of an index: otherwise each statement may read the whole table, which took half a second with a million rows.
    sql`delete from idempotency_keys where ctid in (select ctid from idempotency_keys
      where created_at < now() - interval '24 hours' order by created_at limit ${batch})`,
    // Turns kept for the retries of client libraries, see `retryWindowMs`.
    sql`delete from idempotency_keys where ctid in (select ctid from idempotency_keys
      where key like E'retry\n%' and created_at < now() - interval '10 minutes' order by created_at limit ${batch})`,
    // One for each client address that has sent a request of the sign-in page, and of no use after a minute.
    sql`delete from user_rate_limits where ctid in (select ctid from user_rate_limits
      where last_request < extract(epoch from now() - interval '1 hour') * 1000 limit ${batch})`,
    sql`delete from user_sessions where ctid in (select ctid from user_sessions where expires_at < now() limit ${batch})`,
  ];
  for (const statement of statements) {
    let deleted = batch;
    while (deleted === batch && !signal?.aborted) deleted = Number((await statement.execute(db)).numAffectedRows ?? 0);
  }
}
