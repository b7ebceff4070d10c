import { ServiceError } from '../errors.ts';
import type { TurnFailed } from '../session/events.ts';

/**
 * How a unary caller is told of a failed turn; streams carry the same code in an event. `willPass` is false because the turn did
 * run: a client library that repeats the request by itself would only be told of the same failure again.
 */
export function turnFailure(failed: TurnFailed): ServiceError {
  const { code, message, provider, retryAfterSeconds } = failed;
  const fields = provider === undefined ? {} : { provider };
  switch (code) {
    case 'byok_key_rejected':
    case 'context_length_exceeded':
      return new ServiceError('invalid', message, { code, fields });
    case 'rate_limited':
      return new ServiceError('rate-limited', message, { code, fields, retryAfterSeconds: retryAfterSeconds ?? 5, willPass: false });
    case 'overloaded':
      return new ServiceError('unavailable', message, { code, fields, retryAfterSeconds: retryAfterSeconds ?? 5, willPass: false });
    case 'internal_error':
      return new ServiceError('internal', message, { code, willPass: false });
    default:
      return new ServiceError('upstream', message, { code, fields, willPass: false });
  }
}
