import type { AdapterError } from '../adapters/errors.ts';
import type { ClosingReason } from './open-streams.ts';

const reasons: Record<ClosingReason, { type: string; message: string }> = {
  token_expired: { type: 'authentication_error', message: 'The session token has expired. The turn continues without this stream.' },
  credential_revoked: { type: 'authentication_error', message: 'The credential of this stream is no longer valid.' },
  session_deleted: { type: 'not_found_error', message: 'The session no longer exists.' },
  server_shutdown: { type: 'server_error', message: 'The server is restarting. The turn continues without this stream.' },
  database_unavailable: {
    type: 'server_error',
    message: 'The database is not available at the moment. The turn continues without this stream.',
  },
};

/** What a stream says that ends before its turn. Without it a client would take what it has received for the whole answer. */
export function closingError(reason: ClosingReason): AdapterError {
  return { ...reasons[reason], code: reason, param: null };
}
