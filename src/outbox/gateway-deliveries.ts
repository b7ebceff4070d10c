import { hash, randomUUID } from 'node:crypto';
import type { Db } from '../database/database.ts';
import { notifyCouriers } from './deliveries.ts';
import { insertDeliveries } from './new-deliveries.ts';

export interface GatewayDelivery {
  /** The receiving gateway. */
  gatewayUrl: string;
  type: string;
  body: unknown;
}

/**
 * As many as an organization has webhook endpoints at most: a claim passes every lane of everybody, which takes 35 ms for 1,000 and
 * 1.4 s for 20,000 on the embedded database, and a gateway's URL is whatever a caller says.
 */
const lanesOfAnOrganization = 1_000;

/**
 * Queues deliveries to other gateways, on the same schedule as webhooks. A gateway is always in the same lane of an organization,
 * rarely together with another.
 */
export async function queueForGateways(transaction: Db, orgId: number, deliveries: readonly GatewayDelivery[], now: Date): Promise<void> {
  if (deliveries.length === 0) return;
  const rows = deliveries.map(({ gatewayUrl, type, body }) => {
    const url = deliveriesUrl(gatewayUrl);
    return { id: randomUUID(), org_id: orgId, gateway_url: url, lane: laneOf(orgId, url), type, body: JSON.stringify(body) };
  });
  await insertDeliveries(transaction, rows, now);
  await notifyCouriers(transaction);
}

function laneOf(orgId: number, url: string): string {
  return `gateway ${orgId} ${hash('sha256', url, 'buffer').readUInt32BE() % lanesOfAnOrganization}`;
}

/** Where a gateway takes deliveries. */
export function deliveriesUrl(gatewayUrl: string): string {
  return `${gatewayUrl.replace(/\/+$/, '')}/v1/gateway/deliveries`;
}
