import type { Context } from '../../context.ts';
import { requireOwnAddress } from '../shared/caller/own-address.ts';
import type { Server } from '../shared/fastify.ts';
import { dashboardAuditRoutes } from './audit.ts';
import { overviewRoute } from './overview.ts';
import { dashboardPages } from './pages.ts';
import { dashboardSessionRoutes } from './sessions.ts';
import { systemRoute } from './system.ts';
import { tryModelRoute } from './try-model.ts';

/** The dashboard: its pages, and the few requests that the management API does not offer. */
export async function dashboardRoutes(server: Server, context: Context): Promise<void> {
  dashboardPages(server, context);
  await server.register(async (scope: Server) => {
    scope.addHook('onRequest', requireOwnAddress(context.config));
    scope.addHook('onRequest', async (_request, reply) => {
      reply.header('cache-control', 'no-store');
    });
    overviewRoute(scope, context);
    dashboardSessionRoutes(scope, context);
    dashboardAuditRoutes(scope, context);
    systemRoute(scope, context);
    tryModelRoute(scope, context);
  });
}
