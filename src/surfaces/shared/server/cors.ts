import cors from '@fastify/cors';
import type { Config } from '../../../config.ts';
import type { Server } from '../fastify.ts';

/**
 * Registers a surface that pages of other origins may call with a session token. Other routes have no CORS headers, because they
 * take API keys, which do not belong in a browser. Cookies are not accepted: only the token identifies the caller.
 */
export function registerForBrowsers(server: Server, config: Config, prefix: string, routes: (scope: Server) => void): void {
  const origins = config.PARLEY_CORS_ORIGINS;
  server.register(
    async (scope: Server) => {
      await scope.register(cors, {
        origin: origins.includes('*') ? '*' : origins.length === 0 ? false : origins,
        methods: ['GET', 'POST', 'DELETE'],
        exposedHeaders: ['x-request-id', 'retry-after', 'x-should-retry', 'x-svc-session', 'idempotent-replayed'],
        credentials: false,
        maxAge: 600,
        strictPreflight: false,
      });
      routes(scope);
    },
    { prefix },
  );
}
