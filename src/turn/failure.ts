import { keyReused, notFound, ServiceError } from '../errors.ts';
import type { TurnFailed } from '../session/events.ts';
import type { AdmitRefusal } from '../session/operations.ts';
import { participantsFull } from '../session/participants.ts';
import { budgetError } from './budget.ts';

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

/** How the sender of a message is told that the log refused it. */
export function admissionError(result: AdmitRefusal): ServiceError {
  switch (result.status) {
    case 'not-found':
      return notFound();
    case 'key-reused':
      return keyReused();
    case 'stopped':
      return new ServiceError('conflict', 'The session is stopped. Create it again with its session_id to continue.', {
        code: 'session_stopped',
      });
    case 'input-pending':
      return new ServiceError('conflict', 'The session is waiting for an approval.', {
        code: 'input_pending',
        fields: { request_id: result.request_id },
      });
    case 'queue-full':
      return new ServiceError('rate-limited', 'Too many messages are waiting in this session.', { retryAfterSeconds: 1 });
    case 'participants-full':
      return participantsFull();
    default:
      return budgetError(result.status);
  }
}

/** How whoever answers an approval is told that it does not wait for that answer. */
export function inputMismatch(message: string): ServiceError {
  return new ServiceError('conflict', message, { code: 'input_mismatch' });
}
