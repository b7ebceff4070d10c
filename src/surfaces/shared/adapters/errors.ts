import { notFound } from '../../../errors.ts';
import { sendError, serviceErrorOf, toWireError, type WireError } from '../errors.ts';
import type { Server } from '../fastify.ts';

/** The error object that the client libraries of the two adapters read. */
export interface AdapterError {
  message: string;
  type: string;
  code: string;
  param: string | null;
}

const kinds: Record<number, { type: string; code: string }> = {
  400: { type: 'invalid_request_error', code: 'bad_request' },
  401: { type: 'authentication_error', code: 'unauthorized' },
  402: { type: 'insufficient_quota', code: 'budget_exhausted' },
  403: { type: 'permission_error', code: 'forbidden' },
  404: { type: 'not_found_error', code: 'not_found' },
  409: { type: 'conflict_error', code: 'conflict' },
  413: { type: 'invalid_request_error', code: 'too_large' },
  415: { type: 'invalid_request_error', code: 'unsupported_media_type' },
  422: { type: 'invalid_request_error', code: 'invalid_request' },
  429: { type: 'rate_limit_error', code: 'rate_limited' },
  503: { type: 'server_error', code: 'unavailable' },
};
const otherKind = { type: 'server_error', code: 'internal_error' };

/** `detail` as on every surface, and `error` beside it. */
export function adapterErrorBody(wire: WireError): { detail: WireError['detail']; error: AdapterError } {
  return { detail: wire.detail, error: adapterError(wire) };
}

/** Client libraries have calls that do not exist here: they get a 404 in the shape that they read. */
export function refuseUnknown(scope: Server): void {
  // `sendError` finds the shape in the route's config. Fastify's types want a hook here besides.
  const options = { config: { errorBody: adapterErrorBody }, preHandler: [] };
  scope.setNotFoundHandler(options, (_request, reply) => sendError(reply, notFound()));
}

/** The body of a failure after the status has been sent. */
export function adapterFailureBody(error: unknown): { detail: WireError['detail']; error: AdapterError } {
  return adapterErrorBody(toWireError(serviceErrorOf(error)));
}

export function adapterError({ status, detail }: WireError): AdapterError {
  const { type, code } = kinds[status] ?? otherKind;
  const message = typeof detail === 'string' ? detail : detail.message;
  // The message of a refused body begins with the field's name.
  const param = status === 422 || status === 400 ? (/^([\w.-]+): /.exec(message)?.[1] ?? null) : null;
  return { message, type, code: typeof detail === 'string' ? code : detail.error, param };
}
