import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '../../../context.ts';
import { fieldOf } from '../../../json.ts';
import type { Server } from '../fastify.ts';

/** Asked every few seconds by machines: counted, and not worth a line. */
const probes = new Set(['/healthz', '/readyz', '/metrics']);

/** Gives each request its id. When it is over it is counted and logged and leaves its place, also when its client left before the answer. */
export function observeRequests(server: Server, context: Context): void {
  const end = (request: FastifyRequest, reply: FastifyReply) => {
    request.place?.leave();
    const route = request.routeOptions.url ?? 'unknown';
    context.metrics.requestEnded(route, request.method, reply.raw.statusCode, reply.elapsedTime);
    const level = probes.has(route) ? 'debug' : 'info';
    if (context.logger.isLevelEnabled(level)) context.logger[level](describe(request, reply, route), 'request');
  };
  server.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id);
    // Fastify tells of an answer that was sent, not of a connection that ended before.
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

/** Ids and numbers only: what is said, asked for or signed in with is in no line. */
function describe(request: FastifyRequest, reply: FastifyReply, route: string): Record<string, unknown> {
  const named = fieldOf(request.params, 'session_id');
  return {
    request_id: request.id,
    org_id: request.principal?.organization.id,
    session_id: request.turn?.sessionId ?? request.session?.id ?? (reply.raw.statusCode < 400 ? named : undefined),
    turn_id: request.turn?.turnId,
    method: request.method,
    route,
    status: reply.raw.statusCode,
    ms: Math.round(reply.elapsedTime),
    ...(reply.raw.writableFinished ? {} : { client_left: true }),
  };
}
