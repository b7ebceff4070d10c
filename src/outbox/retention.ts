import { sql } from 'kysely';
import type { Db } from '../database/database.ts';

const page = 1_000;

/**
 * Forgets deliveries and events older than so many days, in small steps that hold nobody up. A gateway's event whose reply is
 * still owed stays: its turn may wait for an approval for as long as it takes.
 */
export async function dropOldDeliveries(db: Db, now: Date, days: number): Promise<void> {
  const before = new Date(now.getTime() - days * 86_400_000);
  for (const table of ['deliveries', 'webhook_events', 'gateway_events']) {
    const isDone = table === 'gateway_events' ? sql`state <> 'admitted'` : sql`true`;
    for (let dropped = page; dropped === page; ) {
      const { numAffectedRows } = await sql`delete from ${sql.table(table)} where ctid in
        (select ctid from ${sql.table(table)} where created_at < ${before} and ${isDone} order by created_at limit ${page})`.execute(db);
      dropped = Number(numAffectedRows ?? 0);
    }
  }
}
