import { randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import type { Db } from '../database/database.ts';
import { notifyCouriers } from './deliveries.ts';

export interface GatewayDelivery {
  /** The receiving gateway. */
  gatewayUrl: string;
  type: string;
  body: unknown;
}

/** Queues deliveries to other gateways, on the same schedule as webhooks. Each gateway is a lane of its own. */
export async function queueForGateways(transaction: Db, orgId: number, deliveries: readonly GatewayDelivery[], now: Date): Promise<void> {
  if (deliveries.length === 0) return;
  const rows = deliveries.map(({ gatewayUrl, type, body }) => {
    const url = deliveriesUrl(gatewayUrl);
    return { id: randomUUID(), gateway_url: url, lane: `gateway ${url}`, type, body: JSON.stringify(body) };
  });
  await sql`
    insert into deliveries (id, org_id, gateway_url, lane, type, body, next_attempt_at, due_at, created_at)
    select d.id, ${orgId}, d.gateway_url, d.lane, d.type, d.body, ${now}, ${now}, ${now}
    from json_to_recordset(${JSON.stringify(rows)}::json) as d (id uuid, gateway_url text, lane text, type text, body text)`.execute(
    transaction,
  );
  await notifyCouriers(transaction);
}

/** Where a gateway takes deliveries. */
export function deliveriesUrl(gatewayUrl: string): string {
  return `${gatewayUrl.replace(/\/+$/, '')}/v1/gateway/deliveries`;
}
