import { sql } from 'kysely';
import type { Db } from '../database/database.ts';

const page = 1_000;

/** Forgets deliveries and events of before, in small steps that hold nobody up. */
export async function dropOldDeliveries(db: Db, now: Date, days: number): Promise<void> {
  const before = new Date(now.getTime() - days * 86_400_000);
  for (const table of ['deliveries', 'webhook_events']) {
    for (let dropped = page; dropped === page; ) {
      const { rows } = await sql`delete from ${sql.table(table)} where id in
        (select id from ${sql.table(table)} where created_at < ${before} order by created_at limit ${page}) returning id`.execute(db);
      dropped = rows.length;
    }
  }
  await sql`delete from gateway_events where created_at < ${before}`.execute(db);
}
