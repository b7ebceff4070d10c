import swagger from '@fastify/swagger';
import type { Context } from '../../context.ts';
import type { Server } from '../shared/fastify.ts';
import { nameSchemas } from './openapi-components.ts';
import { documented, scopesOf } from './openapi-operation.ts';

const description = `Parley hosts conversational agents: sessions, messages, approvals, and the management of it all.

Send \`Authorization: Bearer svc_live_...\` with every request; the routes for end users' browsers also take a session token.
Errors are \`{"detail": ...}\`. Every response carries \`X-Request-Id\`. A POST that creates something takes an \`Idempotency-Key\`.`;

/** Collects the schemas of every route that is registered after it. Internal routes are hidden where they are declared. */
export async function collectOpenApi(server: Server): Promise<void> {
  await server.register(swagger, {
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
      return { url, schema: { ...schema, ...documented(method, url, schema ?? {}, scopesOf(route.onRequest)) } };
    },
  });
}

export function openApiRoutes(server: Server, _context: Context): void {
  let text: string | undefined;
  server.get('/openapi.json', { config: { family: 'management' }, schema: { hide: true } }, async (_request, reply) => {
    text ??= JSON.stringify(nameSchemas(server.swagger()));
    return reply.type('application/json; charset=utf-8').header('cache-control', 'public, max-age=60').send(text);
  });
}
