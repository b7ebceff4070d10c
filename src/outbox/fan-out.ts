import { randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import type { Db } from '../database/database.ts';
import { uuidList } from '../database/id-list.ts';
import { laneOfEndpoint, type WebhookEvent, webhookBody } from './payload.ts';

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
export async function fanOut(db: Db, now: Date): Promise<number> {
  return db.transaction().execute(async (transaction) => {
    const { rows: events } = await sql<EventRow>`
      select id, org_id, type, data, created_at from webhook_events where not fanned_out
      order by created_at limit ${fanOutPage} for update skip locked`.execute(transaction);
    if (events.length === 0) return 0;
    const endpoints = await transaction
      .selectFrom('webhook_endpoints')
      .innerJoin('organizations', 'organizations.id', 'webhook_endpoints.org_id')
      .select(['webhook_endpoints.id', 'org_id', 'event_types', 'webhook_endpoints.created_at', 'organizations.slug'])
      .where('org_id', 'in', [...new Set(events.map((event) => event.org_id))])
      .where('enabled', '=', true)
      .execute();
    const fresh = events.flatMap((event) =>
      endpoints
        .filter((endpoint) => endpoint.org_id === event.org_id && wants(endpoint.event_types, event.type))
        // Not what happened before it was made; unless the clock was set back since, and nobody can tell.
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

export interface NewDelivery {
  id: string;
  org_id: number;
  endpoint_id: number;
  event_id: string | null;
  lane: string;
  type: string;
  body: string;
}

export function newDelivery(
  eventId: string | null,
  endpoint: { id: number; org_id: number; slug: string },
  event: WebhookEvent,
): NewDelivery {
  const id = randomUUID();
  return {
    id,
    org_id: endpoint.org_id,
    endpoint_id: endpoint.id,
    event_id: eventId,
    lane: laneOfEndpoint(endpoint.id),
    type: event.type,
    body: webhookBody(id, { id: endpoint.org_id, slug: endpoint.slug }, endpoint.id, event),
  };
}

/** Due at once. An event that an endpoint already has a delivery of is passed over; returns how many were new. */
export async function insertDeliveries(transaction: Db, deliveries: readonly NewDelivery[], now: Date, due = true): Promise<number> {
  if (deliveries.length === 0) return 0;
  const { rows } = await sql`
    insert into deliveries (id, org_id, endpoint_id, event_id, lane, type, body, next_attempt_at, due_at, created_at)
    select d.id, d.org_id, d.endpoint_id, d.event_id, d.lane, d.type, d.body, ${now}, case when ${due} then ${now}::timestamptz end, ${now}
    from json_to_recordset(${JSON.stringify(deliveries)}::json)
      as d (id uuid, org_id integer, endpoint_id integer, event_id uuid, lane text, type text, body text)
    on conflict do nothing returning id`.execute(transaction);
  return rows.length;
}
