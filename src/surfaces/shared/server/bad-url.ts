import type { onRequestAsyncHookHandler, preValidationAsyncHookHandler } from 'fastify';
import { notFound, ServiceError } from '../../../errors.ts';

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
