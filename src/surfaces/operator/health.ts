import type { Context } from '../../context.ts';
import { ServiceError } from '../../errors.ts';
import { SharedWork } from '../../work/shared-work.ts';
import { outage, sendError } from '../shared/errors.ts';
import type { Server } from '../shared/fastify.ts';

/** `/healthz`: the process runs. `/readyz`: it can take requests, for load balancers. `/metrics`: for Prometheus. */
export function healthRoutes(server: Server, context: Context): void {
  // Anybody can ask: requests at the same moment share one query.
  const pings = new SharedWork<void>();
  server.get('/healthz', { schema: { hide: true } }, async () => ({ status: 'ok' }));
  server.get('/readyz', { schema: { hide: true } }, async (_request, reply) => {
    if (context.turns.draining) return sendError(reply, new ServiceError('unavailable', 'draining', { retryAfterSeconds: 5 }));
    try {
      await pings.run('ping', () => context.database.ping());
    } catch (error) {
      return sendError(reply, outage(error));
    }
    return { status: 'ready' };
  });
  server.get('/metrics', { schema: { hide: true } }, async (_request, reply) => {
    return reply.type(context.metrics.contentType).send(await context.metrics.read());
  });
}
