import { fileURLToPath } from 'node:url';
import { ServiceError } from '../../errors.ts';
import type { Server } from '../shared/fastify.ts';
import { builtFiles, sendBuilt } from '../shared/pages/built-file.ts';

const path = fileURLToPath(new URL('../../../widget/dist/parley-chat.js', import.meta.url));

/** The chat widget for customers' pages: one public script, made by `npm run build`, that any origin may load. */
export function widgetRoutes(server: Server): void {
  const findBuilt = builtFiles();
  server.get('/widget/parley-chat.js', { schema: { hide: true } }, async (request, reply) => {
    const script = await findBuilt(path);
    if (script === undefined)
      throw new ServiceError('unavailable', 'The widget is not built: run npm run build.', { retryAfterSeconds: 60 });
    // The URL is the same for all versions, so browsers check for a new one after five minutes, and use the old one meanwhile.
    reply
      .header('access-control-allow-origin', '*')
      .header('cross-origin-resource-policy', 'cross-origin')
      .header('x-content-type-options', 'nosniff')
      .header('cache-control', 'public, max-age=300, stale-while-revalidate=86400');
    return sendBuilt(request, reply, script);
  });
}
