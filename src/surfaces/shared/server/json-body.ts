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

/** Walks without recursion, so that depth cannot end the process. What is neither text nor holds some is passed over: there may be half a million. */
function assertPlain(body: unknown, kind: 'invalid' | 'bad-request'): void {
  const open: { value: object; depth: number; path: string }[] = [];
  const look = (value: unknown, depth: number, parent: string, key: string | number) => {
    if (typeof value === 'string') assertStorable(value, parent, key, kind);
    else if (typeof value === 'object' && value !== null) open.push({ value, depth, path: below(parent, key) });
  };
  look(body, 0, '', '');
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { value, depth, path } = next;
    if (depth >= maxDepth) throw new ServiceError(kind, `The body is nested more than ${maxDepth} levels deep.`);
    if (Array.isArray(value)) {
      for (let index = 0; index < value.length; index += 1) look(value[index], depth + 1, path, index);
      continue;
    }
    for (const [key, child] of Object.entries(value)) {
      if (key === '__proto__') throw new ServiceError(kind, 'The key __proto__ is not allowed.');
      assertStorable(key, path, '', kind);
      look(child, depth + 1, path, key);
    }
  }
}

function assertStorable(text: string, parent: string, key: string | number, kind: 'invalid' | 'bad-request'): void {
  if (text.includes('\0')) throw new ServiceError(kind, `${shown(below(parent, key))}: must not contain a NUL character`);
  if (!text.isWellFormed()) throw new ServiceError(kind, `${shown(below(parent, key))}: must be well-formed Unicode`);
}

function below(parent: string, key: string | number): string {
  if (key === '') return parent;
  return parent === '' ? String(key) : `${parent}.${key}`;
}

/** Only for a refusal: cutting copies the whole path, which for each value below a key of half a megabyte takes minutes. */
function shown(path: string): string {
  return path === '' ? 'body' : path.slice(0, 200);
}
