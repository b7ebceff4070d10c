/** The `detail` of an error response: a sentence, or an object with a stable code in `error`. */
export type ErrorDetail = string | { error: string; message: string; [field: string]: unknown };

/** Base of everything that this client throws on purpose. */
export class ParleyError extends Error {
  override name = 'ParleyError';
}

/** The server answered with an error. `status` is 200 when a turn failed after the server had sent the start of its response. */
export class ApiError extends ParleyError {
  override name = 'ApiError';
  readonly status: number;
  /** The stable code (`budget_exhausted`, `session_stopped`, ...), where the server gives one. */
  readonly code: string | undefined;
  readonly detail: ErrorDetail | undefined;
  /** Identifies the request in the server's log. */
  readonly requestId: string | undefined;
  readonly retryAfterSeconds: number | undefined;
  /** Whether the same request can succeed when it is sent again, where the server says so. */
  readonly shouldRetry: boolean | undefined;

  constructor(status: number, detail: ErrorDetail | undefined, requestId?: string, retryAfterSeconds?: number, shouldRetry?: boolean) {
    super(typeof detail === 'string' ? detail : (detail?.message ?? `The server answered ${status}`));
    this.status = status;
    this.detail = detail;
    this.code = typeof detail === 'object' ? detail.error : undefined;
    this.requestId = requestId;
    this.retryAfterSeconds = retryAfterSeconds;
    this.shouldRetry = shouldRetry;
  }
}

/** 401: the credential is missing, wrong or has expired. */
export class AuthenticationError extends ApiError {
  override name = 'AuthenticationError';
}

/** 402: a budget or a spend cap is used up; nothing ran. */
export class BudgetError extends ApiError {
  override name = 'BudgetError';
}

/** 403: the credential is valid but not permitted to do this. */
export class PermissionError extends ApiError {
  override name = 'PermissionError';
}

/** 404: it does not exist, or it is not yours. */
export class NotFoundError extends ApiError {
  override name = 'NotFoundError';
}

/** 409: an approval is pending, the session is stopped, the release is not ready, ... */
export class ConflictError extends ApiError {
  override name = 'ConflictError';
}

/** 400 and 422: the request itself is not valid, or the provider refused the organization's own key. */
export class ValidationError extends ApiError {
  override name = 'ValidationError';
}

/** 429, after the retries. */
export class RateLimitError extends ApiError {
  override name = 'RateLimitError';
}

/** 503, after the retries. */
export class UnavailableError extends ApiError {
  override name = 'UnavailableError';
}

/** No answer: the network failed, or the server was silent for too long. `cause` is the underlying error, if there is one. */
export class ConnectionError extends ParleyError {
  override name = 'ConnectionError';
}

/** A webhook delivery that was not signed with this secret, or not recently. */
export class SignatureError extends ParleyError {
  override name = 'SignatureError';
}

const byStatus: Record<number, typeof ApiError> = {
  400: ValidationError,
  401: AuthenticationError,
  402: BudgetError,
  403: PermissionError,
  404: NotFoundError,
  409: ConflictError,
  422: ValidationError,
  429: RateLimitError,
  503: UnavailableError,
};

export function apiError(status: number, body: unknown, headers: Headers): ApiError {
  const Kind = byStatus[status] ?? ApiError;
  const shouldRetry = shouldRetryValues.get(headers.get('x-should-retry'));
  return new Kind(status, detailOf(body), headers.get('x-request-id') ?? undefined, retryAfterSeconds(headers), shouldRetry);
}

const shouldRetryValues = new Map<string | null, boolean>([
  ['true', true],
  ['false', false],
]);

/** `Retry-After` as seconds or as a date. */
function retryAfterSeconds(headers: Headers): number | undefined {
  const value = headers.get('retry-after');
  if (value === null) return undefined;
  const seconds = Number(value);
  if (Number.isFinite(seconds)) return Math.max(0, seconds);
  const date = Date.parse(value);
  return Number.isNaN(date) ? undefined : Math.max(0, (date - Date.now()) / 1000);
}

/** The route that mints session tokens has `error` and `message` at the top of the body; all others have them below `detail`. */
function detailOf(body: unknown): ErrorDetail | undefined {
  if (typeof body !== 'object' || body === null) return undefined;
  const detail = 'detail' in body ? body.detail : body;
  if (typeof detail === 'string') return detail;
  if (typeof detail !== 'object' || detail === null || !('error' in detail) || typeof detail.error !== 'string') return undefined;
  const message = 'message' in detail && typeof detail.message === 'string' ? detail.message : detail.error;
  return { ...detail, error: detail.error, message };
}
