import { createHash } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { ServiceError } from '../../errors.ts';
import type { Server } from '../shared/fastify.ts';

const path = fileURLToPath(new URL('../../../widget/dist/parley-chat.js', import.meta.url));

interface Script {
  builtAt: number;
  plain: Buffer;
  compressed: Buffer;
  tag: string;
}

/** The chat widget, for the pages of customers: one public file that any origin may load, as `npm run build` made it. */
export function widgetRoutes(server: Server): void {
  let known: Script | undefined;
  server.get('/widget/parley-chat.js', { schema: { hide: true } }, async (request, reply) => {
    const builtAt = await lastChange();
    if (builtAt === undefined)
      throw new ServiceError('unavailable', 'The widget is not built: run npm run build.', { retryAfterSeconds: 60 });
    if (known?.builtAt !== builtAt) known = await readScript(builtAt);
    return sendScript(request, reply, known);
  });
}

/** Its address stays the same over versions, so browsers ask again after five minutes, and meanwhile use what they have. */
function sendScript(request: FastifyRequest, reply: FastifyReply, { plain, compressed, tag }: Script): FastifyReply {
  reply
    .header('access-control-allow-origin', '*')
    .header('cross-origin-resource-policy', 'cross-origin')
    .header('x-content-type-options', 'nosniff')
    .header('cache-control', 'public, max-age=300, stale-while-revalidate=86400')
    .header('vary', 'accept-encoding')
    .header('etag', tag);
  if (request.headers['if-none-match']?.includes(tag)) return reply.code(304).send();
  reply.type('text/javascript; charset=utf-8');
  if (!/\bgzip\b/.test(request.headers['accept-encoding'] ?? '')) return reply.send(plain);
  return reply.header('content-encoding', 'gzip').send(compressed);
}

async function readScript(builtAt: number): Promise<Script> {
  const [plain, compressed] = await Promise.all([readFile(path), readFile(`${path}.gz`)]);
  // Weak: the two encodings share it.
  return { builtAt, plain, compressed, tag: `W/"${createHash('sha256').update(plain).digest('base64url').slice(0, 22)}"` };
}

async function lastChange(): Promise<number | undefined> {
  try {
    return (await stat(`${path}.gz`)).mtimeMs;
  } catch {
    return undefined;
  }
}
