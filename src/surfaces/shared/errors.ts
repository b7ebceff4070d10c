import type { FastifyReply, FastifyRequest } from 'fastify';
import { isDatabaseFailure } from '../../database/database.ts';
import { type ErrorKind, errorCode, ServiceError } from '../../errors.ts';

const statuses: Record<ErrorKind, number> = {
  'bad-request': 400,
  unauthorized: 401,
  budget: 402,
  forbidden: 403,
  'not-found': 404,
  conflict: 409,
  'too-large': 413,
  'unsupported-media-type': 415,
  invalid: 422,
  'rate-limited': 429,
  internal: 500,
  upstream: 502,
  unavailable: 503,
};

export interface WireError {
  status: number;
  /** The contents of `detail`: a sentence, or an object with `error` and `message`. */
  detail: string | ({ error: string; message: string } & Record<string, unknown>);
  retryAfterSeconds: number | undefined;
  /** The header `x-should-retry`. Without it, client libraries repeat a request after a 408, 409, 429 and 5xx. */
  shouldRetry: boolean | undefined;
}

/** Whether a request may succeed when it is sent again, unless the error itself says so. */
const willPass: Partial<Record<ErrorKind, boolean>> = { budget: false, conflict: false, 'rate-limited': true, unavailable: true };

export function toWireError(error: ServiceError): WireError {
  const { code, message, fields } = error;
  return {
    status: statuses[error.kind],
    detail: code === undefined ? message : { error: code, message, ...fields },
    retryAfterSeconds: error.retryAfterSeconds,
    shouldRetry: error.willPass ?? willPass[error.kind],
  };
}

/** The error that a client is told, whatever was thrown. */
export function serviceErrorOf(error: unknown): ServiceError {
  if (error instanceof ServiceError) return error;
  return isDatabaseFailure(error) ? outage(error) : new ServiceError('internal', 'Internal error');
}

/** Neither a refusal nor an outage of the database, but a bug: to be logged, since the client is only told that something failed. */
export function isUnexpected(error: unknown): boolean {
  return !(error instanceof ServiceError) && !isDatabaseFailure(error);
}

export function outage(error: unknown): ServiceError {
  const reason = outages[errorCode(error) ?? ''] ?? 'The database is not reachable at the moment.';
  return new ServiceError('unavailable', reason, { retryAfterSeconds: 1 });
}

const outages: Record<string, string> = {
  '53100': 'The database has no space left.',
  '25006': 'The database accepts no writes at the moment.',
};

/** The body of a failure after the status has been sent. */
export function failureBody(error: unknown): { detail: WireError['detail'] } {
  return { detail: toWireError(serviceErrorOf(error)).detail };
}

/** The body in the shape of the surface, which may set its own with `config.errorBody`. */
export function wireBody(request: FastifyRequest, error: WireError): string {
  const { errorBody } = request.routeOptions.config;
  return JSON.stringify(errorBody === undefined ? plainBody(error) : errorBody(error));
}

/** The code of a reused key is at the top too: a client may know this error as `{error: 'idempotency_key_reused'}`. */
function plainBody({ detail }: WireError): unknown {
  const isReusedKey = typeof detail === 'object' && detail.error === 'idempotency_key_reused';
  return isReusedKey ? { error: detail.error, detail } : { detail };
}

export function sendError(reply: FastifyReply, error: ServiceError): FastifyReply {
  const wire = toWireError(error);
  // RFC 9110: a 401 says how to sign in.
  if (wire.status === 401) reply.header('www-authenticate', 'Bearer');
  if (wire.retryAfterSeconds !== undefined) reply.header('retry-after', String(Math.max(1, Math.ceil(wire.retryAfterSeconds))));
  if (wire.shouldRetry !== undefined) reply.header('x-should-retry', String(wire.shouldRetry));
  return reply.code(wire.status).type('application/json; charset=utf-8').send(wireBody(reply.request, wire));
}
