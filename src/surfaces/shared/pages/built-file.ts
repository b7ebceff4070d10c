import { hash } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { extname } from 'node:path';
import type { FastifyReply, FastifyRequest } from 'fastify';

/** A file that `npm run build` made, with the compressed copy beside it. */
export interface BuiltFile {
  builtAt: number;
  type: string;
  plain: Buffer;
  compressed: Buffer | undefined;
  tag: string;
}

const types: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
  '.png': 'image/png',
};

/** Reads built files, and keeps each in memory until it is built again. The function returns undefined for a file that does not exist. */
export function builtFiles(): (path: string) => Promise<BuiltFile | undefined> {
  const known = new Map<string, BuiltFile>();
  return async (path) => {
    // A build writes the compressed copy last: its time says that both are complete.
    const builtAt = (await lastChange(`${path}.gz`)) ?? (await lastChange(path));
    if (builtAt === undefined) return undefined;
    const kept = known.get(path);
    if (kept?.builtAt === builtAt) return kept;
    const file = await readBuilt(path, builtAt);
    known.set(path, file);
    return file;
  };
}

export function sendBuilt(request: FastifyRequest, reply: FastifyReply, { type, plain, compressed, tag }: BuiltFile): FastifyReply {
  reply.header('vary', 'accept-encoding').header('etag', tag);
  if (request.headers['if-none-match']?.includes(tag)) return reply.code(304).send();
  reply.type(type);
  if (compressed === undefined || !acceptsGzip(request.headers['accept-encoding'] ?? '')) return reply.send(plain);
  return reply.header('content-encoding', 'gzip').send(compressed);
}

/** A weight of zero refuses what it stands behind (RFC 9110). */
function acceptsGzip(accepted: string): boolean {
  return /\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))/i.test(accepted);
}

async function readBuilt(path: string, builtAt: number): Promise<BuiltFile> {
  const [plain, compressed] = await Promise.all([readFile(path), readFile(`${path}.gz`).catch(() => undefined)]);
  // A weak tag (RFC 9110), since the plain and the compressed bytes share it.
  const tag = `W/"${hash('sha256', plain, 'base64url').slice(0, 22)}"`;
  return { builtAt, type: types[extname(path)] ?? 'application/octet-stream', plain, compressed, tag };
}

async function lastChange(path: string): Promise<number | undefined> {
  try {
    const found = await stat(path);
    return found.isFile() ? found.mtimeMs : undefined;
  } catch {
    return undefined;
  }
}
