import { sql } from 'kysely';
import type { Db } from './database/database.ts';
import { dropEmptied } from './session/deleted-responses.ts';
import { dropLeftovers } from './session/sessions.ts';

const everyMs = 10 * 60_000;

/**
 * Clears up, now and then: kept answers after a day, those to retries after ten minutes, ended sign-ins, unstored, emptied and
 * abandoned sessions. Returns a way to stop.
 */
export function sweepExpiredRows(db: Db, stopAbandoned: () => Promise<void>): { stop(): Promise<void> } {
  let sweeping: Promise<void> = Promise.resolve();
  const timer = setInterval(() => {
    // The database may be away; there is another time.
    sweeping = deleteExpiredRows(db)
      .then(() => dropLeftovers(db))
      .then(() => dropEmptied(db))
      .then(stopAbandoned)
      .catch(() => {});
  }, everyMs).unref();
  return {
    async stop() {
      clearInterval(timer);
      await sweeping;
    },
  };
}

/** In small statements: none may hold up the turns that write to the same tables. */
export async function deleteExpiredRows(db: Db, batch = 1_000): Promise<void> {
  const statements = [
    sql`delete from idempotency_keys where ctid in (select ctid from idempotency_keys where created_at < now() - interval '24 hours' limit ${batch})`,
    sql`delete from idempotency_keys where ctid in (select ctid from idempotency_keys
      where key like E'retry\n%' and created_at < now() - interval '10 minutes' limit ${batch})`,
    sql`delete from user_sessions where ctid in (select ctid from user_sessions where expires_at < now() limit ${batch})`,
  ];
  for (const statement of statements) {
    let deleted = batch;
    while (deleted === batch) deleted = Number((await statement.execute(db)).numAffectedRows ?? 0);
  }
}
