import type { onRequestAsyncHookHandler, preValidationAsyncHookHandler } from 'fastify';
import { notFound, ServiceError } from '../../../errors.ts';

/** No name of ours holds a NUL, and PostgreSQL takes none: so such a path names nothing. */
export const refuseNulPath: onRequestAsyncHookHandler = async (request) => {
  const [path = ''] = request.url.split('?', 1);
  if (path.includes('%00') || path.includes('\0')) throw notFound();
};

/** An unknown path or method is 404 whatever is sent along: its body is not looked at. */
export const refuseUnknownPath: onRequestAsyncHookHandler = async (request) => {
  if (request.is404) throw notFound();
};

/** After the caller is known, so that a stranger still hears 401. */
export const refuseNulQuery: preValidationAsyncHookHandler = async (request) => {
  const query = request.url.slice(request.url.indexOf('?') + 1);
  if (query !== request.url && (query.includes('%00') || query.includes('\0')))
    throw new ServiceError(request.routeOptions.config.badBody ?? 'invalid', 'query: must not contain a NUL character');
};
