import { sql } from 'kysely';
import type { Db } from '../database/database.ts';
import { uuidList } from '../database/id-list.ts';
import { insertDeliveries, newDelivery } from './new-deliveries.ts';

/** More events than this are taken in several transactions. */
export const fanOutPage = 200;

interface EventRow {
  id: string;
  org_id: number;
  type: string;
  data: unknown;
  created_at: Date;
}

/** Makes a delivery of each waiting event for each endpoint that wants it. Returns how many events it took. */
export async function fanOut(db: Db, now: Date, since: Date): Promise<number> {
  return db.transaction().execute(async (transaction) => {
    const { rows: events } = await sql<EventRow>`
      select id, org_id, type, data, created_at from webhook_events where not fanned_out and created_at >= ${since}
      order by created_at, id limit ${fanOutPage} for update skip locked`.execute(transaction);
    if (events.length === 0) return 0;
    const endpoints = await transaction
      .selectFrom('webhook_endpoints')
      .innerJoin('organizations', 'organizations.id', 'webhook_endpoints.org_id')
      .select(['webhook_endpoints.id', 'org_id', 'event_types', 'webhook_endpoints.created_at', 'organizations.slug'])
      .where('org_id', 'in', [...new Set(events.map((event) => event.org_id))])
      .where('enabled', '=', true)
      // One that is being deleted is waited for: nothing can be added to it.
      .forKeyShare('webhook_endpoints')
      .execute();
    const fresh = events.flatMap((event) =>
      endpoints
        .filter((endpoint) => endpoint.org_id === event.org_id && wants(endpoint.event_types, event.type))
        // Not what happened before the endpoint was made; if the clock was set back since, nobody can tell what did.
        .filter((endpoint) => endpoint.created_at <= event.created_at || endpoint.created_at > now)
        .map((endpoint) => newDelivery(event.id, endpoint, { type: event.type, createdAt: event.created_at, data: event.data })),
    );
    await insertDeliveries(transaction, fresh, now);
    const taken = uuidList(events.map((event) => event.id));
    await sql`update webhook_events set fanned_out = true where id in ${taken}`.execute(transaction);
    return events.length;
  });
}

export function wants(subscribed: readonly string[], type: string): boolean {
  return subscribed.length === 0 || subscribed.includes(type);
}
