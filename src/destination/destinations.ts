import type { Config } from '../config.ts';
import { checkDestination, createGuard, type DestinationPolicy, type Guard } from './guard.ts';

/** One kind of outgoing request, with its own rules and its own connections. */
export interface Destination extends Guard {
  /** Throws `invalid` with the reason when a URL would be refused. */
  check(url: string): Promise<void>;
}

export interface Destinations {
  webhooks: Destination;
  /** Other gateways. Those listed in PARLEY_GATEWAY_PEERS may be at any address. */
  gateways: Destination;
  /** Models and MCP servers. */
  upstreams: Destination;
  /** The `fetch` tool: only public addresses, even where the operator allows models and MCP servers on a private network. */
  web: Destination;
}

type Settings = Pick<Config, 'PARLEY_WEBHOOK_ALLOW_PRIVATE' | 'PARLEY_ALLOW_PRIVATE_UPSTREAMS' | 'PARLEY_GATEWAY_PEERS'>;

/** Made once at the start. */
export function createDestinations(config: Settings): Destinations {
  const deliveries = { allowPrivate: config.PARLEY_WEBHOOK_ALLOW_PRIVATE, liftedBy: 'PARLEY_WEBHOOK_ALLOW_PRIVATE' };
  return {
    webhooks: destination(deliveries),
    gateways: destination({ ...deliveries, exemptOrigins: Object.keys(config.PARLEY_GATEWAY_PEERS) }),
    upstreams: destination({ allowPrivate: config.PARLEY_ALLOW_PRIVATE_UPSTREAMS, liftedBy: 'PARLEY_ALLOW_PRIVATE_UPSTREAMS' }),
    web: destination({ allowPrivate: false, maxRedirects: 5 }),
  };
}

function destination(policy: DestinationPolicy): Destination {
  return { ...createGuard(policy), check: (url) => checkDestination(url, policy) };
}
