import type { Db } from '../database/database.ts';
import type { Participant } from '../database/schema.ts';
import { type GatewayDelivery, queueForGateways } from '../outbox/gateway-deliveries.ts';
import { type GatewayEvent, maxHops } from './event.ts';

/**
 * Queues an event for every participant at another gateway but the one who said it. Whoever is here reads it in the
 * session's log, where it stands already. What has passed as many gateways as it may goes no further.
 */
export async function tellOthers(
  transaction: Db,
  orgId: number,
  participants: readonly Participant[],
  event: GatewayEvent,
  ownUrl: string | undefined,
  now: Date,
): Promise<void> {
  if (event.hops.length > maxHops) return;
  const deliveries = participants.flatMap((participant): GatewayDelivery[] => {
    const { name, gateway_url: gatewayUrl, gateway_session_id: sessionId } = participant;
    if (gatewayUrl === undefined || gatewayUrl === ownUrl || name === event.sender_id) return [];
    const body = { recipient_id: name, event, ...(sessionId === undefined ? {} : { session_id: sessionId }) };
    return [{ gatewayUrl, type: event.event_type, body }];
  });
  await queueForGateways(transaction, orgId, deliveries, now);
}
