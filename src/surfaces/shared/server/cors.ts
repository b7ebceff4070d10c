import cors from '@fastify/cors';
import type { Config } from '../../../config.ts';
import type { Server } from '../fastify.ts';

/**
 * Registers a surface that browsers of other origins may call with a session token. The headers of CORS are on these
 * routes and on no other: a key has no business in a browser. No cookies: the token is all that identifies the caller.
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
