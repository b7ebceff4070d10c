import { ServiceError } from '../errors.ts';
import type { TurnFailed } from '../session/events.ts';

/**
 * A failed turn as a unary caller is told of it; streams carry the same code in an event. The turn ran: whoever sends the
 * same request again, as client libraries do by themselves, is only told of the same failure.
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
