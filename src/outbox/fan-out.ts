import { sql } from 'kysely';
import type { Db } from '../database/database.ts';
import { uuidList } from '../database/id-list.ts';
import { insertDeliveries, newDelivery } from './new-deliveries.ts';

/** More than this are taken in several transactions: nobody else's events, and on the embedded database nobody at all, gets on meanwhile. */
const limits = { events: 200, deliveries: 1_000 };
/** Among as many of the oldest, organizations take turns: one whose events each go to hundreds of endpoints delays nobody else's. */
const mostInTurns = 2_000;

interface EventRow {
  id: string;
  org_id: number;
  type: string;
  data: unknown;
  created_at: Date;
}

/** Makes a delivery of each waiting event for each endpoint that wants it. False when more events may wait. */
export async function fanOut(db: Db, now: Date, since: Date, most = limits): Promise<boolean> {
  return db.transaction().execute(async (transaction) => {
    const { rows: events } = await sql<EventRow>`
      select e.id, e.org_id, e.type, e.data, e.created_at from (
        select id, row_number() over (partition by org_id order by created_at, id) as turn from (
          select id, org_id, created_at from webhook_events where not fanned_out and created_at >= ${since}
          order by created_at, id limit ${mostInTurns}) as oldest
        order by turn, created_at, id limit ${most.events}) as chosen
      join webhook_events e on e.id = chosen.id and not e.fanned_out
      order by turn, created_at, e.id for update of e skip locked`.execute(transaction);
    if (events.length === 0) return true;
    const endpoints = await transaction
      .selectFrom('webhook_endpoints')
      .innerJoin('organizations', 'organizations.id', 'webhook_endpoints.org_id')
      .select(['webhook_endpoints.id', 'org_id', 'event_types', 'webhook_endpoints.created_at', 'organizations.slug'])
      .where('org_id', 'in', [...new Set(events.map((event) => event.org_id))])
      .where('enabled', '=', true)
      // One that is being deleted is waited for: nothing can be added to it.
      .forKeyShare('webhook_endpoints')
      .execute();
    const ofOrg = Map.groupBy(endpoints, (endpoint) => endpoint.org_id);
    const fresh: ReturnType<typeof newDelivery>[] = [];
    const taken: string[] = [];
    for (const { id, org_id: orgId, type, data, created_at: createdAt } of events) {
      if (fresh.length >= most.deliveries) break;
      taken.push(id);
      for (const endpoint of ofOrg.get(orgId) ?? []) {
        // Not what happened before the endpoint was made; if the clock was set back since, nobody can tell what did.
        const isOlder = endpoint.created_at > createdAt && endpoint.created_at <= now;
        if (wants(endpoint.event_types, type) && !isOlder) fresh.push(newDelivery(id, endpoint, { type, createdAt, data }));
      }
    }
    await insertDeliveries(transaction, fresh, now);
    await sql`update webhook_events set fanned_out = true where id in ${uuidList(taken)}`.execute(transaction);
    return taken.length < most.events && taken.length === events.length;
  });
}

export function wants(subscribed: readonly string[], type: string): boolean {
  return subscribed.length === 0 || subscribed.includes(type);
}
