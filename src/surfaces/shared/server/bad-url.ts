import type { onRequestAsyncHookHandler, preValidationAsyncHookHandler } from 'fastify';
import { notFound, ServiceError } from '../../../errors.ts';

/** How long a name in a path may be: more than any id, which has at most 128 characters, even if each is escaped. */
export const maxNameLength = 512;

/**
 * Fastify refuses a name in a path that it cannot decode, or that is too long, without looking for the route, which knows the shape of
 * its errors. Such a name becomes NUL, which is refused below.
 */
export function replaceBadNames({ url = '/' }: { url?: string | undefined }): string {
  if (!url.includes('%') && url.length <= maxNameLength) return url;
  const [path = ''] = url.split(/[?#]/, 1);
  const names = path.split('/').map((name) => (isReadable(name) ? name : '%00'));
  return names.join('/') + url.slice(path.length);
}

function isReadable(name: string): boolean {
  if (name.length > maxNameLength) return false;
  try {
    decodeURIComponent(name);
    return true;
  } catch {
    return false;
  }
}

/** PostgreSQL stores no NUL character, so a path with one names nothing. */
export const refuseNulPath: onRequestAsyncHookHandler = async (request) => {
  const [path = ''] = request.url.split('?', 1);
  if (path.includes('%00') || path.includes('\0')) throw notFound();
};

/** An unknown path or method is 404 whatever its body is, which is not parsed. */
export const refuseUnknownPath: onRequestAsyncHookHandler = async (request) => {
  if (request.is404) throw notFound();
};

/** Runs after authentication, so that an unknown caller gets 401. */
export const refuseNulQuery: preValidationAsyncHookHandler = async (request) => {
  const query = request.url.slice(request.url.indexOf('?') + 1);
  if (query !== request.url && (query.includes('%00') || query.includes('\0')))
    throw new ServiceError(request.routeOptions.config.badBody ?? 'invalid', 'query: must not contain a NUL character');
};
