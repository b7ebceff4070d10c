/** Something that a participant says, on its way between gateways. */
export interface GatewayEvent {
  id: string;
  sender_id: string;
  sender_type: 'human' | 'ai';
  event_type: string;
  message?: string;
  /** Of the gateway that the sender talks from. */
  session_id?: string;
  /** Where the sender is reached. */
  sender_gateway_url?: string;
  metadata?: Record<string, unknown>;
  /** The gateways that it passed, oldest first. */
  hops: string[];
}

export const maxHops = 8;

/** Of an event, in any gateway: a longer one is refused. */
export const maxMessageCharacters = 200_000;

/** A gateway is named by its URL without what differs in spelling only. */
export function gatewayUrl(url: string): string {
  return URL.canParse(url) ? new URL(url).href.replace(/[?#].*$/, '').replace(/\/+$/, '') : url;
}

/** Where the sender is reached, if that is not here. */
export function senderGateway(event: GatewayEvent, ownUrl: string | undefined): string | undefined {
  const url = event.sender_gateway_url === undefined ? undefined : gatewayUrl(event.sender_gateway_url);
  return url === ownUrl ? undefined : url;
}
