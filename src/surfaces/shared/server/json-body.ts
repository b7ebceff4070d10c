import { isUtf8 } from 'node:buffer';
import type { FastifyInstance } from 'fastify';
import { ServiceError } from '../../../errors.ts';

const maxDepth = 64;

/**
 * Takes JSON and nothing else. What PostgreSQL could not store, or what would set a prototype, is refused here with a
 * clear error: NUL, half surrogate pairs, deep nesting, `__proto__`.
 */
export function acceptJsonOnly(server: FastifyInstance): void {
  server.removeAllContentTypeParsers();
  server.addContentTypeParser('*', ({ headers }, _body, done) => {
    // Some clients name a type of nothing, as `curl -d ''` does.
    if (headers['transfer-encoding'] === undefined && (headers['content-length'] ?? '0') === '0') return done(null, undefined);
    done(new ServiceError('unsupported-media-type', 'Send Content-Type: application/json.'));
  });
  server.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, bytes, done) => {
    const kind = request.routeOptions.config.badBody ?? 'invalid';
    const { 'content-encoding': encoding = 'identity' } = request.headers;
    if (encoding !== 'identity') return done(new ServiceError('unsupported-media-type', 'Send the body without a Content-Encoding.'));
    // Decoding would put a replacement character in place of what was meant.
    if (typeof bytes !== 'string' && !isUtf8(bytes)) return done(new ServiceError(kind, 'The body is not valid UTF-8.'));
    request.rawBody = bytes.toString();
    if (request.rawBody.trim() === '') return done(null, undefined);
    try {
      const value: unknown = JSON.parse(request.rawBody);
      assertPlain(value, kind);
      done(null, value);
    } catch (error) {
      done(error instanceof ServiceError ? error : new ServiceError(kind, 'The body is not valid JSON.'));
    }
  });
}

/** Walks without recursion, so that depth cannot end the process. */
function assertPlain(value: unknown, kind: 'invalid' | 'bad-request'): void {
  const open: { value: unknown; depth: number; path: string }[] = [{ value, depth: 0, path: '' }];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (typeof next.value === 'string') assertStorable(next.value, next.path, kind);
    if (typeof next.value !== 'object' || next.value === null) continue;
    if (next.depth >= maxDepth) throw new ServiceError(kind, `The body is nested more than ${maxDepth} levels deep.`);
    for (const [key, child] of Object.entries(next.value)) {
      if (key === '__proto__') throw new ServiceError(kind, 'The key __proto__ is not allowed.');
      assertStorable(key, next.path, kind);
      open.push({ value: child, depth: next.depth + 1, path: next.path === '' ? key : `${next.path}.${key}` });
    }
  }
}

function assertStorable(text: string, path: string, kind: 'invalid' | 'bad-request'): void {
  if (text.includes('\0')) throw new ServiceError(kind, `${shown(path)}: must not contain a NUL character`);
  if (!text.isWellFormed()) throw new ServiceError(kind, `${shown(path)}: must be well-formed Unicode`);
}

/** Only for a refusal: cutting copies the whole path, which for each value below a key of half a megabyte takes minutes. */
function shown(path: string): string {
  return path === '' ? 'body' : path.slice(0, 200);
}
