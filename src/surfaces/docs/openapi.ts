import type { SwaggerOptions } from '@fastify/swagger';
import fastify, { type RouteOptions } from 'fastify';
import { loadOnce } from '../../work/load-once.ts';
import type { Server } from '../shared/fastify.ts';
import { lateCompilers, validateLate } from '../shared/schemas/compile-late.ts';
import { completeDocument } from './openapi-document.ts';
import { documentRoute, scopesOfHooks } from './openapi-operation.ts';

const description = `Parley hosts conversational agents: sessions, messages, approvals, and the management of it all.

Send \`Authorization: Bearer svc_live_...\` with every request; the routes for end users' browsers also take a session token.
Errors are \`{"detail": ...}\`. Every response carries \`X-Request-Id\`. A POST takes an \`Idempotency-Key\`.`;

const options: SwaggerOptions = {
  openapi: {
    openapi: '3.1.0',
    info: { title: 'Parley', version: '1', description, license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } },
    components: {
      securitySchemes: {
        apiKey: { type: 'http', scheme: 'bearer', description: "An API key (svc_live_...) of the customer's backend." },
        sessionToken: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT', description: "A minted token in an end user's browser." },
      },
    },
    security: [{ apiKey: [] }],
  },
  hideUntagged: true,
  transform: ({ schema, url, route }) => {
    const method = String(route.method);
    return {
      url,
      schema: { ...schema, ...documentRoute(method, url, schema ?? {}, scopesOfHooks(route.onRequest), route.config?.badBody) },
    };
  },
};

/** Collects every route that is registered after this call, except those that are declared as hidden. */
export function collectRoutes(server: Server): RouteOptions[] {
  const routes: RouteOptions[] = [];
  server.addHook('onRoute', (route) => {
    if (route.schema?.hide !== true && route.method !== 'HEAD') routes.push(route);
  });
  return routes;
}

export function openApiRoutes(server: Server, routes: RouteOptions[]): void {
  const document = loadOnce(() => writeDocument(routes));
  server.get('/openapi.json', { config: { family: 'management' }, schema: { hide: true } }, async (_request, reply) => {
    return reply
      .type('application/json; charset=utf-8')
      .header('cache-control', 'public, max-age=60')
      .send(await document.get());
  });
}

/** Loads the plugin that writes the document when someone asks for it, and registers the routes with it then: it takes 4 MiB. */
async function writeDocument(routes: RouteOptions[]): Promise<string> {
  const { default: swagger } = await import('@fastify/swagger');
  const documents = fastify({ exposeHeadRoutes: false, schemaController: lateCompilers });
  documents.setValidatorCompiler(validateLate);
  await documents.register(swagger, options);
  for (const { method, url, schema, onRequest, config, handler } of routes)
    documents.route({
      method,
      url,
      handler,
      ...(schema === undefined ? {} : { schema }),
      ...(onRequest === undefined ? {} : { onRequest }),
      ...(config === undefined ? {} : { config }),
    });
  await documents.ready();
  return JSON.stringify(completeDocument(documents.swagger()));
}
