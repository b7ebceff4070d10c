import type { Server as HttpServer, RequestListener } from 'node:http';
import fastify, { type FastifyBaseLogger, LogController } from 'fastify';
import type { Config } from './config.ts';
import type { Context } from './context.ts';
import { notFound } from './errors.ts';
import { newId } from './ids.ts';
import { chatCompletionsRoutes } from './surfaces/chat-completions/routes.ts';
import { dashboardRoutes } from './surfaces/dashboard/routes.ts';
import { apiReferenceRoutes } from './surfaces/docs/api-reference.ts';
import { collectRoutes, openApiRoutes } from './surfaces/docs/openapi.ts';
import { docsRoutes } from './surfaces/docs/routes.ts';
import { gatewayRoutes } from './surfaces/gateway/routes.ts';
import { managedAgentRoutes } from './surfaces/managed-agents/routes.ts';
import { managementRoutes } from './surfaces/management/routes.ts';
import { nativeRoutes } from './surfaces/native/routes.ts';
import { healthRoutes } from './surfaces/operator/health.ts';
import { operatorRoutes } from './surfaces/operator/organizations.ts';
import { responsesRoutes } from './surfaces/responses/routes.ts';
import { sendError } from './surfaces/shared/errors.ts';
import type { Server } from './surfaces/shared/fastify.ts';
import { lateCompilers, validateLate } from './surfaces/shared/schemas/compile-late.ts';
import { maxNameLength, refuseNulPath, refuseNulQuery, refuseUnknownPath, replaceBadNames } from './surfaces/shared/server/bad-url.ts';
import { limitBodyMemory } from './surfaces/shared/server/body-memory.ts';
import { checkAgainAfterWaiting, keepChecks } from './surfaces/shared/server/check-again.ts';
import { refuseEarly } from './surfaces/shared/server/early-refusals.ts';
import { handleError } from './surfaces/shared/server/handle-error.ts';
import { requireOneHost, splitHosts } from './surfaces/shared/server/hosts.ts';
import { acceptJsonOnly } from './surfaces/shared/server/json-body.ts';
import { rememberResponses } from './surfaces/shared/server/newest-response.ts';
import { observeRequests } from './surfaces/shared/server/observe.ts';
import { leavePlaceForAnswer, leavePlaceForBody } from './surfaces/shared/server/place.ts';
import { Refusals } from './surfaces/shared/server/refusals.ts';
import { cutStalledReaders } from './surfaces/shared/server/stalled-readers.ts';
import { refuseExpectation, refuseTunnel, refuseUnreadable } from './surfaces/shared/server/unreadable.ts';
import { OpenStreams } from './surfaces/shared/streams/open-streams.ts';
import { widgetRoutes } from './surfaces/widget/routes.ts';

/** The HTTP server over a context. It listens when told to; closing it does not close the context. */
export async function createApp(context: Context): Promise<Server> {
  const refusals = new Refusals(context);
  const server = createServer(context, refusals);
  const streams = new OpenStreams(context);
  decorate(server, refusals, streams);
  endStreams(server, context, streams);
  acceptJsonOnly(server);
  server.setErrorHandler(handleError(context.logger));
  server.setNotFoundHandler((_request, reply) => sendError(reply, notFound()));
  addHooks(server, context);
  await addRoutes(server, context);
  await server.ready();
  return server;
}

/** Fastify, and what is answered on its node:http server without it: some refusals, and what never becomes a request. */
function createServer(context: Context, refusals: Refusals): Server {
  const { config } = context;
  const isStaying = () => !context.turns.draining && server.server.listening;
  const server: Server = fastify({
    loggerInstance: context.logger as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }),
    // `observeRequests` logs each request in one line, which needs no child logger.
    childLoggerFactory: (logger) => logger,
    bodyLimit: 1024 * 1024,
    serverFactory: (serve) =>
      createHttpServer(config, (request, response) => {
        // The process stops: the client's next request goes over a new connection, to another process.
        if (!isStaying()) response.shouldKeepAlive = false;
        if (!refusals.answer(request, response)) serve(request, response);
      }),
    genReqId: () => newId('rid_'),
    trustProxy: config.PARLEY_TRUST_PROXY.length > 0 ? config.PARLEY_TRUST_PROXY : false,
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    routerOptions: { maxParamLength: maxNameLength },
    rewriteUrl: replaceBadNames,
    // A path that does not begin with a slash is not found.
    frameworkErrors: (_error, request, reply) => {
      reply.header('x-request-id', request.id);
      sendError(reply, notFound());
    },
    clientErrorHandler: refuseUnreadable,
    schemaController: lateCompilers,
  });
  server.setValidatorCompiler(validateLate);
  server.server.on('checkExpectation', refuseExpectation);
  server.server.on('connect', refuseTunnel);
  rememberResponses(server.server);
  refuseEarly(server.server, { refusals, isBusy: () => context.waitingRoom.waiting > 0, isStaying });
  return server;
}

/** Adds the properties that `surfaces/shared/fastify.ts` declares. */
function decorate(server: Server, refusals: Refusals, streams: OpenStreams): void {
  server.decorateRequest('principal', undefined);
  server.decorateRequest('agent', undefined);
  server.decorateRequest('session', undefined);
  server.decorateRequest('place', undefined);
  server.decorateRequest('checkedAt', undefined);
  server.decorateRequest('turn', undefined);
  server.decorateRequest('rawBody', '');
  server.decorate('refusals', refusals);
  server.decorate('streams', streams);
}

/** Streams are ended with the server, or before it if their reader stalls. */
function endStreams(server: Server, context: Context, streams: OpenStreams): void {
  cutStalledReaders(server.server, streams);
  context.metrics.gauge('parley_streams_open', 'Open event streams', () => streams.size);
  context.metrics.counter(
    'parley_streams_cut_total',
    'Streams and other answers cut because their reader stalled',
    () => streams.stalledCount,
  );
  server.addHook('preClose', async () => {
    streams.close();
    context.feed.close();
  });
}

/** What every request passes, in this order. The hooks of its route come after those of the same name. */
function addHooks(server: Server, context: Context): void {
  observeRequests(server, context);
  server.addHook('onRequest', splitHosts(context.config));
  server.addHook('onRequest', requireOneHost);
  server.addHook('onRequest', refuseNulPath);
  server.addHook('onRequest', refuseUnknownPath);
  server.addHook('preParsing', leavePlaceForBody);
  server.addHook('preParsing', limitBodyMemory());
  server.addHook('preValidation', checkAgainAfterWaiting(context));
  server.addHook('preValidation', refuseNulQuery);
  server.addHook('onSend', leavePlaceForAnswer);
  server.addHook('onRoute', keepChecks);
}

async function addRoutes(server: Server, context: Context): Promise<void> {
  const documentedRoutes = collectRoutes(server);
  healthRoutes(server, context);
  nativeRoutes(server, context);
  managedAgentRoutes(server, context);
  chatCompletionsRoutes(server, context);
  responsesRoutes(server, context);
  gatewayRoutes(server, context);
  managementRoutes(server, context);
  operatorRoutes(server, context);
  openApiRoutes(server, documentedRoutes);
  apiReferenceRoutes(server);
  await docsRoutes(server);
  widgetRoutes(server);
  await dashboardRoutes(server, context);
}

function createHttpServer(config: Config, listener: RequestListener): HttpServer {
  const requestTimeout = config.PARLEY_REQUEST_TIMEOUT_MS;
  const options = {
    requireHostHeader: false,
    requestTimeout,
    headersTimeout: requestTimeout / 4,
    // By default node:http checks for timeouts only every 30 s.
    connectionsCheckingInterval: Math.min(5_000, requestTimeout / 8),
    keepAliveTimeout: config.PARLEY_KEEP_ALIVE_MS,
  };
  // An import of node:http would also load Node's own fetch, which is one of its exports: 40 ms and 3 MiB that a start does not need.
  return process.getBuiltinModule('node:http').createServer(options, listener);
}
