import { randomUUID } from 'node:crypto';
import type { Db } from '../database/database.ts';
import { notifyCouriers } from './deliveries.ts';
import { insertDeliveries } from './new-deliveries.ts';

export interface GatewayDelivery {
  /** The receiving gateway. */
  gatewayUrl: string;
  type: string;
  body: unknown;
}

/** Queues deliveries to other gateways, on the same schedule as webhooks. Each gateway is a lane of its own, for each organization. */
export async function queueForGateways(transaction: Db, orgId: number, deliveries: readonly GatewayDelivery[], now: Date): Promise<void> {
  if (deliveries.length === 0) return;
  const rows = deliveries.map(({ gatewayUrl, type, body }) => {
    const url = deliveriesUrl(gatewayUrl);
    return { id: randomUUID(), org_id: orgId, gateway_url: url, lane: `gateway ${orgId} ${url}`, type, body: JSON.stringify(body) };
  });
  await insertDeliveries(transaction, rows, now);
  await notifyCouriers(transaction);
}

/** Where a gateway takes deliveries. */
export function deliveriesUrl(gatewayUrl: string): string {
  return `${gatewayUrl.replace(/\/+$/, '')}/v1/gateway/deliveries`;
}
