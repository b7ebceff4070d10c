import { sql } from 'kysely';
import type { Db } from '../database/database.ts';

const page = 1_000;

/**
 * Forgets deliveries and events older than so many days, in small steps that hold nobody up. By the database's clock: a process
 * whose own is weeks ahead would forget everybody's. A gateway's event whose reply is still owed stays: its turn may wait for an
 * approval for as long as it takes.
 */
export async function dropOldDeliveries(db: Db, days: number): Promise<void> {
  for (const table of ['deliveries', 'webhook_events', 'gateway_events']) {
    const isDone = table === 'gateway_events' ? sql`state <> 'admitted'` : sql`true`;
    for (let dropped = page; dropped === page; ) {
      const { numAffectedRows } = await sql`delete from ${sql.table(table)} where ctid in
        (select ctid from ${sql.table(table)} where created_at < now() - ${days} * interval '1 day' and ${isDone} order by created_at limit ${page})`.execute(
        db,
      );
      dropped = Number(numAffectedRows ?? 0);
    }
  }
}

/**
 * Forgets what an endpoint was sent, likewise, ahead of the endpoint itself: with it, a million deliveries would take longer than a
 * statement may, and until then nobody's events would be sent. What is added or written meanwhile goes with the endpoint.
 */
export async function dropDeliveriesTo(db: Db, orgId: number, endpointId: number): Promise<void> {
  for (let before = Number.MAX_SAFE_INTEGER; before > 0; ) {
    const { rows } = await sql<{ first: number }>`
      with old as (
        select id, position from deliveries where org_id = ${orgId} and endpoint_id = ${endpointId} and position < ${before}
        order by position desc limit ${page} for update skip locked
      ), gone as (
        delete from deliveries where id in (select id from old)
      ) select coalesce(min(position), 0) as first from old`.execute(db);
    before = rows[0]?.first ?? 0;
  }
}
