/** What went wrong, in terms of the core, which knows no HTTP: surfaces turn the kind into a status and a body. */
export type ErrorKind =
  | 'bad-request' // 400
  | 'unauthorized' // 401
  | 'budget' // 402
  | 'forbidden' // 403
  | 'not-found' // 404
  | 'conflict' // 409
  | 'too-large' // 413
  | 'unsupported-media-type' // 415
  | 'invalid' // 422
  | 'rate-limited' // 429
  | 'internal' // 500: ours, never the client's
  | 'upstream' // 502
  | 'unavailable'; // 503

export interface ServiceErrorOptions {
  /** The stable code (`detail.error`); without it the body's `detail` is the plain message. */
  code?: string;
  /** Further fields of a structured `detail`, such as `reason`, `provider` or `request_id`. */
  fields?: Record<string, unknown>;
  retryAfterSeconds?: number;
  /** Whether the same request may succeed when it is sent again. If not set, the kind decides. */
  willPass?: boolean;
  cause?: unknown;
}

export class ServiceError extends Error {
  readonly kind: ErrorKind;
  readonly code: string | undefined;
  readonly fields: Record<string, unknown>;
  readonly retryAfterSeconds: number | undefined;
  readonly willPass: boolean | undefined;

  constructor(kind: ErrorKind, message: string, options: ServiceErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'ServiceError';
    this.kind = kind;
    this.code = options.code;
    this.fields = options.fields ?? {};
    this.retryAfterSeconds = options.retryAfterSeconds;
    this.willPass = options.willPass;
  }
}

/** The one 404: what does not exist, or belongs to another organization or agent, all looks the same. */
export function notFound(): ServiceError {
  return new ServiceError('not-found', 'Not Found');
}

/** The value, or a 404. */
export function orNotFound<Value>(value: Value | undefined): Value {
  if (value === undefined) throw notFound();
  return value;
}

export function overloaded(retryAfterSeconds = 1): ServiceError {
  return new ServiceError('unavailable', 'The server is overloaded.', { retryAfterSeconds });
}

/** An Idempotency-Key identifies one request; this one came with another. */
export function keyReused(): ServiceError {
  return new ServiceError('invalid', 'This Idempotency-Key was already used with a different request.', { code: 'idempotency_key_reused' });
}

export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Why a request to another server failed. Without that server's address, because the end users of an agent may read it. */
export function networkReason(error: unknown): string {
  const namesServer = error instanceof Error && ['address', 'hostname', 'host'].some((field) => field in error);
  return namesServer ? `the server cannot be reached (${errorCode(error)})` : errorMessage(error);
}

/** An error and what caused it, outermost first. */
export function causesOf(error: unknown): unknown[] {
  const chain: unknown[] = [];
  for (let cause = error; cause !== undefined && cause !== null && chain.length < 8; ) {
    chain.push(cause);
    cause = cause instanceof Error ? cause.cause : undefined;
  }
  return chain;
}

/** The code of an error of Node.js or PostgreSQL, such as `ENOENT` or `40001`. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}
