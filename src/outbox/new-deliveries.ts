import { randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import { timestamp } from '../clock.ts';
import type { Db } from '../database/database.ts';

interface WebhookEvent {
  type: string;
  createdAt: Date;
  data: unknown;
}

interface NewDelivery {
  id: string;
  org_id: number;
  /** Its receiver is an endpoint or another gateway. */
  endpoint_id?: number;
  gateway_url?: string;
  event_id?: string | null;
  lane: string;
  type: string;
  body: string;
}

/** A delivery of an event to one endpoint. Its body is made once and stored as text, so that every attempt sends the same bytes. */
export function newDelivery(
  eventId: string | null,
  endpoint: { id: number; org_id: number; slug: string },
  { type, createdAt, data }: WebhookEvent,
): NewDelivery {
  const id = randomUUID();
  const organization = { id: endpoint.org_id, slug: endpoint.slug };
  return {
    id,
    org_id: endpoint.org_id,
    endpoint_id: endpoint.id,
    event_id: eventId,
    lane: `endpoint ${endpoint.id}`,
    type,
    body: JSON.stringify({ id, type, created_at: timestamp(createdAt), organization, endpoint_id: endpoint.id, data }),
  };
}

/**
 * Inserts deliveries and returns how many were new: if the endpoint already has a delivery of an event, it gets no second one.
 * Callers pass them in the order of their events, so that two that insert the same ones cannot deadlock. Without `isDue`, they
 * wait until the endpoint is enabled.
 */
export async function insertDeliveries(transaction: Db, deliveries: readonly NewDelivery[], now: Date, isDue = true): Promise<number> {
  if (deliveries.length === 0) return 0;
  const { rows } = await sql`
    insert into deliveries (id, org_id, endpoint_id, gateway_url, event_id, lane, type, body, next_attempt_at, due_at, created_at)
    select d.id, d.org_id, d.endpoint_id, d.gateway_url, d.event_id, d.lane, d.type, d.body,
      ${now}, case when ${isDue} then ${now}::timestamptz end, ${now}
    from json_to_recordset(${JSON.stringify(deliveries)}::json)
      as d (id uuid, org_id integer, endpoint_id integer, gateway_url text, event_id uuid, lane text, type text, body text)
    on conflict do nothing returning id`.execute(transaction);
  return rows.length;
}
