/** What a participant said, as it is passed between gateways. */
export interface GatewayEvent {
  id: string;
  sender_id: string;
  sender_type: 'human' | 'ai';
  event_type: string;
  message?: string;
  /** A session of the gateway that the sender talks from. */
  session_id?: string;
  /** The gateway at which the sender is reached. */
  sender_gateway_url?: string;
  metadata?: Record<string, unknown>;
  /** The gateways that it passed, oldest first. */
  hops: string[];
}

export const maxHops = 8;

/** Gateways refuse an event with a longer message. */
export const maxMessageCharacters = 200_000;

/** The URL of a gateway in one spelling, so that two URLs of the same gateway are equal. */
export function gatewayUrl(url: string): string {
  return URL.canParse(url) ? new URL(url).href.replace(/[?#].*$/, '').replace(/\/+$/, '') : url;
}

/** The gateway at which the sender is reached, undefined if that is this one. */
export function senderGateway(event: GatewayEvent, ownUrl: string | undefined): string | undefined {
  const url = event.sender_gateway_url === undefined ? undefined : gatewayUrl(event.sender_gateway_url);
  return url === ownUrl ? undefined : url;
}
