import type { Config } from '../config.ts';
import { createGuard, type Guard } from './guard.ts';

export interface Destinations {
  webhooks: Guard;
  /** Other gateways. Those listed in PARLEY_GATEWAY_PEERS may be at any address. */
  gateways: Guard;
  /** Models and MCP servers. */
  upstreams: Guard;
  /** The `fetch` tool: only public addresses, even where the operator allows models and MCP servers on a private network. */
  web: Guard;
}

type Settings = Pick<Config, 'PARLEY_WEBHOOK_ALLOW_PRIVATE' | 'PARLEY_ALLOW_PRIVATE_UPSTREAMS' | 'PARLEY_GATEWAY_PEERS'>;

/** Made once at the start. */
export function createDestinations(config: Settings): Destinations {
  const deliveries = { allowPrivate: config.PARLEY_WEBHOOK_ALLOW_PRIVATE, liftedBy: 'PARLEY_WEBHOOK_ALLOW_PRIVATE' };
  return {
    webhooks: createGuard(deliveries),
    gateways: createGuard({ ...deliveries, exemptOrigins: Object.keys(config.PARLEY_GATEWAY_PEERS) }),
    upstreams: createGuard({ allowPrivate: config.PARLEY_ALLOW_PRIVATE_UPSTREAMS, liftedBy: 'PARLEY_ALLOW_PRIVATE_UPSTREAMS' }),
    web: createGuard({ allowPrivate: false, maxRedirects: 5 }),
  };
}
