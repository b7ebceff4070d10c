import swagger from '@fastify/swagger';
import type { Context } from '../../context.ts';
import type { Server } from '../shared/fastify.ts';
import { nameSchemas } from './openapi-components.ts';

const description = `Parley hosts conversational agents: sessions, messages, approvals, and the management of it all.

Send \`Authorization: Bearer svc_live_...\` with every request; the routes for end users' browsers also take a session token.
Errors are \`{"detail": ...}\`. Every response carries \`X-Request-Id\`. A POST that creates something takes an \`Idempotency-Key\`.`;

/** Routes that an end user's session token may call too (spec 5.3). */
const tokenRoutes = /^\/[:{]org\}?\/[:{]agent\}?\/v1\/(managed-agents|chat|responses)/;

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
    transform: ({ schema, url, route }) => ({
      schema: {
        ...schema,
        operationId: schema?.operationId ?? operationId(String(route.method), url),
        ...(tokenRoutes.test(url) ? { security: [{ apiKey: [] }, { sessionToken: [] }] } : {}),
      },
      url,
    }),
  });
}

export function openApiRoutes(server: Server, _context: Context): void {
  let text: string | undefined;
  server.get('/openapi.json', { config: { family: 'management' }, schema: { hide: true } }, async (_request, reply) => {
    text ??= JSON.stringify(nameSchemas(server.swagger()));
    return reply.type('application/json; charset=utf-8').header('cache-control', 'public, max-age=60').send(text);
  });
}

/** `GET /api/agents/:slug` is `getApiAgentsBySlug`. */
function operationId(method: string, url: string): string {
  const words = url
    .split(/[/._-]/)
    .filter((word) => word !== '' && word !== '*')
    .map((word) => (word.startsWith(':') ? `By${capital(word.slice(1))}` : capital(word)));
  return method.toLowerCase() + words.join('');
}

function capital(word: string): string {
  return word.slice(0, 1).toUpperCase() + word.slice(1);
}
