import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '../../../context.ts';
import { fieldOf } from '../../../text/json.ts';
import type { Server } from '../fastify.ts';

/** Called every few seconds by monitoring: counted, but not worth a line in the log. */
const probes = new Set(['/healthz', '/readyz', '/metrics']);

/** Gives each request its id. When it ends, also because its client disconnected, it is counted and logged and leaves its place. */
export function observeRequests(server: Server, context: Context): void {
  const end = (request: FastifyRequest, reply: FastifyReply) => {
    request.place?.leave();
    const route = request.routeOptions.url ?? 'unknown';
    context.metrics.requestEnded(route, request.method, statusOf(reply), reply.elapsedTime);
    const level = probes.has(route) ? 'debug' : 'info';
    if (context.logger.isLevelEnabled(level)) context.logger[level](describe(request, reply, route), 'request');
  };
  server.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id);
    // Fastify calls `onResponse` for a response that was sent, not for a connection that closed before.
    reply.raw.once('close', () => {
      if (!reply.raw.writableFinished) end(request, reply);
    });
    done();
  });
  server.addHook('onResponse', (request, reply, done) => {
    end(request, reply);
    done();
  });
}

/** Ids and numbers only: no message, query or credential is logged. */
function describe(request: FastifyRequest, reply: FastifyReply, route: string): Record<string, unknown> {
  const named = fieldOf(request.params, 'session_id');
  return {
    request_id: request.id,
    org_id: request.principal?.organization.id,
    session_id: request.turn?.sessionId ?? request.session?.id ?? (reply.raw.statusCode < 400 ? named : undefined),
    turn_id: request.turn?.turnId,
    method: request.method,
    route,
    status: statusOf(reply),
    ms: Math.round(reply.elapsedTime),
    ...(reply.raw.writableFinished ? {} : { client_left: true }),
  };
}

/** What nginx says of a client that left before it was answered. The status of such a response is still the 200 that it began with. */
const clientClosedRequest = 499;

function statusOf({ raw }: FastifyReply): number {
  return raw.headersSent ? raw.statusCode : clientClosedRequest;
}
