import type { Db } from '../database/database.ts';
import { type GatewayDelivery, queueForGateways } from '../outbox/gateway-deliveries.ts';
import { type GatewayEvent, maxHops } from './event.ts';

/**
 * Queues events of a session for every participant at another gateway but the one who said them. Whoever is here reads them in the
 * session's log, where they stand already. What has passed as many gateways as it may goes no further.
 */
export async function tellOthers(
  transaction: Db,
  session: { org_id: number; session_id: string },
  events: readonly GatewayEvent[],
  now: Date,
): Promise<void> {
  const row = await transaction.selectFrom('sessions').select('participants').where('id', '=', session.session_id).executeTakeFirst();
  // One statement for each: all of a long reply, for a hundred participants, would be hundreds of megabytes.
  for (const event of events) {
    if (event.hops.length > maxHops) continue;
    const deliveries = (row?.participants ?? []).flatMap((participant): GatewayDelivery[] => {
      const { name, gateway_url: gatewayUrl, gateway_session_id: sessionId } = participant;
      if (gatewayUrl === undefined || name === event.sender_id) return [];
      const body = { recipient_id: name, event, ...(sessionId === undefined ? {} : { session_id: sessionId }) };
      return [{ gatewayUrl, type: event.event_type, body }];
    });
    await queueForGateways(transaction, session.org_id, deliveries, now);
  }
}
