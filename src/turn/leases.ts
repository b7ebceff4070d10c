import { sql } from 'kysely';
import type { Database } from '../database/database.ts';
import type { Logger } from '../logger.ts';
import type { Runner } from './runner.ts';

export interface Leases {
  /** Gives up what this process still holds, so that another need not wait for the lease to run out. */
  release(): Promise<void>;
}

/**
 * Keeps this process's turns its own while it lives, and takes up those of processes that fell silent. On the embedded
 * database nobody else can hold a turn, so that a start takes up at once what the last process left.
 */
export async function holdLeases(database: Database, runner: Runner, processId: string, leaseMs: number, logger: Logger): Promise<Leases> {
  if (database.engine === 'pglite') await claim(database, runner, processId, leaseMs, true);
  const timer = setInterval(() => void beat(), Math.max(100, leaseMs / 4));
  let beating = false;
  return {
    async release() {
      clearInterval(timer);
      try {
        await sql`update turns set lease_until = now() where process_id = ${processId} and state = 'running'`.execute(database.db);
      } catch (error) {
        // A database that is gone keeps nobody from stopping: the leases run out by themselves.
        logger.warn({ err: error }, 'leases were not given up');
      }
    },
  };

  async function beat(): Promise<void> {
    if (beating) return;
    beating = true;
    try {
      const ids = [...runner.running.keys()];
      if (ids.length > 0) await renew(database, processId, leaseMs, ids);
      await claim(database, runner, processId, leaseMs, false);
    } catch (error) {
      logger.warn({ err: error }, 'leases were not renewed');
    } finally {
      beating = false;
    }
  }
}

async function renew(database: Database, processId: string, leaseMs: number, ids: string[]): Promise<void> {
  await sql`update turns set lease_until = now() + ${leaseMs} * interval '1 millisecond'
    where id in (select value from json_array_elements_text(${JSON.stringify(ids)}::json) value) and process_id = ${processId} and state = 'running'`.execute(
    database.db,
  );
}

/** Skips what another process is claiming at the same moment. */
async function claim(database: Database, runner: Runner, processId: string, leaseMs: number, regardless: boolean): Promise<void> {
  const { rows } = await sql<{ id: string; session_id: string; org_id: number; interrupted: boolean }>`
    update turns set process_id = ${processId}, lease_until = now() + ${leaseMs} * interval '1 millisecond'
    where id in (
      select id from turns where state = 'running' and (lease_until < now() or (${regardless} and process_id <> ${processId}))
      order by lease_until limit 100 for update skip locked)
    returning id, session_id, org_id, interrupted`.execute(database.db);
  for (const row of rows) {
    if (runner.running.has(row.id)) continue;
    runner.begin({ turn: row.id, session: row.session_id, org: row.org_id }, [], true);
    if (row.interrupted) runner.interrupt(row.id);
  }
}
