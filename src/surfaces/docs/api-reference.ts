import fastify, { type FastifyInstance } from 'fastify';
import { loadOnce } from '../../work/load-once.ts';
import type { Server } from '../shared/fastify.ts';

/** The page gets everything it needs from this server and may send no request elsewhere. */
const contentSecurityPolicy = [
  "default-src 'self'",
  "script-src 'self' 'unsafe-inline' 'unsafe-eval'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data: blob:",
  "font-src 'self' data:",
  "worker-src 'self' blob:",
  "frame-ancestors 'none'",
].join('; ');

/** The interactive reference at /docs/api. Its library is 4 MB of code, so it is loaded when someone first opens the page. */
export function apiReferenceRoutes(server: Server): void {
  const reference = loadOnce(loadReference);
  const config = { family: 'management' as const };

  server.get('/docs/api', { config, schema: { hide: true } }, (_request, reply) => reply.redirect('/docs/api/', 301));
  server.get('/docs/api/*', { config, schema: { hide: true } }, async (request, reply) => {
    const answer = await (await reference.get()).inject({ method: 'GET', url: request.url });
    const type = answer.headers['content-type'];
    if (answer.statusCode !== 200 || typeof type !== 'string') return reply.callNotFound();
    return reply.type(type).header('content-security-policy', contentSecurityPolicy).send(answer.rawPayload);
  });
  server.addHook('onClose', async () => {
    await (await reference.loaded())?.close();
  });
}

/** The library is a Fastify plugin, which cannot be registered after the start: it gets a server of its own, which never listens. */
async function loadReference(): Promise<FastifyInstance> {
  const { default: scalar } = await import('@scalar/fastify-api-reference');
  const reference = fastify();
  await reference.register(scalar, {
    routePrefix: '/docs/api',
    configuration: {
      url: '/openapi.json',
      pageTitle: 'Parley API',
      telemetry: false,
      withDefaultFonts: false,
      // These would link to services of the library's vendor.
      hideClientButton: true,
      showDeveloperTools: 'never',
      agent: { disabled: true },
      mcp: { disabled: true },
    },
  });
  await reference.ready();
  return reference;
}
