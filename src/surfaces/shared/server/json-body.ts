import { isUtf8 } from 'node:buffer';
import type { FastifyInstance } from 'fastify';
import { ServiceError } from '../../../errors.ts';

const maxDepth = 64;

/**
 * Accepts JSON bodies only. Refuses what PostgreSQL cannot store (NUL characters, lone surrogates, deep nesting), and `__proto__`,
 * which could set a prototype.
 */
export function acceptJsonOnly(server: FastifyInstance): void {
  server.removeAllContentTypeParsers();
  server.addContentTypeParser('*', ({ headers }, _body, done) => {
    // Some clients send a content type without a body, such as `curl -d ''`.
    if (headers['transfer-encoding'] === undefined && (headers['content-length'] ?? '0') === '0') return done(null, undefined);
    done(new ServiceError('unsupported-media-type', 'Send Content-Type: application/json.'));
  });
  server.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, bytes, done) => {
    const kind = request.routeOptions.config.badBody ?? 'invalid';
    const { 'content-encoding': encoding = 'identity' } = request.headers;
    if (encoding !== 'identity') return done(new ServiceError('unsupported-media-type', 'Send the body without a Content-Encoding.'));
    // Decoding would silently put replacement characters in place of invalid bytes.
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

/** Walks without recursion, so that deep nesting cannot overflow the stack. Only text is checked: there may be half a million values. */
function assertPlain(body: unknown, kind: 'invalid' | 'bad-request'): void {
  const open: { value: object; depth: number; path: string }[] = [];
  const visit = (value: unknown, depth: number, parent: string, key: string | number) => {
    if (typeof value === 'string') assertStorable(value, parent, key, kind);
    else if (typeof value === 'object' && value !== null) open.push({ value, depth, path: below(parent, key) });
  };
  visit(body, 0, '', '');
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { value, depth, path } = next;
    if (depth >= maxDepth) throw new ServiceError(kind, `The body is nested more than ${maxDepth} levels deep.`);
    if (Array.isArray(value)) {
      for (let index = 0; index < value.length; index += 1) visit(value[index], depth + 1, path, index);
      continue;
    }
    for (const [key, child] of Object.entries(value)) {
      if (key === '__proto__') throw new ServiceError(kind, 'The key __proto__ is not allowed.');
      assertStorable(key, path, '', kind);
      visit(child, depth + 1, path, key);
    }
  }
}

function assertStorable(text: string, parent: string, key: string | number, kind: 'invalid' | 'bad-request'): void {
  if (text.includes('\0')) throw new ServiceError(kind, `${shownPath(below(parent, key))}: must not contain a NUL character`);
  if (!text.isWellFormed()) throw new ServiceError(kind, `${shownPath(below(parent, key))}: must be well-formed Unicode`);
}

function below(parent: string, key: string | number): string {
  if (key === '') return parent;
  return parent === '' ? String(key) : `${parent}.${key}`;
}

/** Called for a refusal only: `slice` copies the path, and for each value below a key of half a megabyte that would take minutes. */
function shownPath(path: string): string {
  return path === '' ? 'body' : path.slice(0, 200);
}
