import { sql } from 'kysely';
import type { Db } from '../database/database.ts';

const batchLength = 1_000;

/**
 * What goes when it is old. A delivery that was recovered, or is sent again, may be as old and have attempts before it: it stays until they
 * have ended, unless it is held back. A gateway event that still awaits its reply stays too: its turn may be paused for an approval for
 * any length of time.
 */
const isDone = {
  deliveries: sql`due_at is null`,
  webhook_events: sql`true`,
  gateway_events: sql`state <> 'admitted'`,
};

/**
 * Deletes deliveries and events older than this many days, in small steps that do not block others. It uses the clock of the
 * database, because a process whose own clock is weeks ahead would delete too much.
 */
export async function dropOldDeliveries(db: Db, days: number): Promise<void> {
  for (const [table, condition] of Object.entries(isDone)) {
    for (let dropped = batchLength; dropped === batchLength; ) {
      const { numAffectedRows } = await sql`delete from ${sql.table(table)} where ctid in
        (select ctid from ${sql.table(table)} where created_at < now() - ${days} * interval '1 day' and ${condition} order by created_at limit ${batchLength})`.execute(
        db,
      );
      dropped = Number(numAffectedRows ?? 0);
    }
  }
}

/**
 * Deletes the deliveries to an endpoint in small steps, before the endpoint itself is deleted. As part of that deletion, a million
 * deliveries would take longer than a statement may, and meanwhile no events could be sent. Deliveries that are added or written
 * during these steps are deleted together with the endpoint.
 */
export async function dropDeliveriesTo(db: Db, orgId: number, endpointId: number): Promise<void> {
  for (let before = Number.MAX_SAFE_INTEGER; before > 0; ) {
    const { rows } = await sql<{ first: number }>`
      with old as (
        select id, position from deliveries where org_id = ${orgId} and endpoint_id = ${endpointId} and position < ${before}
        order by position desc limit ${batchLength} for update skip locked
      ), gone as (
        delete from deliveries where id in (select id from old)
      ) select coalesce(min(position), 0) as first from old`.execute(db);
    before = rows[0]?.first ?? 0;
  }
}
