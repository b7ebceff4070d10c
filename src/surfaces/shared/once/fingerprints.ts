import { hash } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import type { Principal } from '../../../accounts/principal.ts';
import { fieldOf } from '../../../text/json.ts';
import { principalOf } from '../caller/authenticate.ts';

/**
 * Tells whether two requests with the same Idempotency-Key are the same: by path and body. Idempotency keys belong to the org, so
 * any of its API keys and members may repeat a request. A session token counts too, since an end user must never get the answer to
 * another one's request.
 */
export function keyFingerprintOf(request: FastifyRequest): string {
  const principal = principalOf(request);
  return fingerprintOf(request, principal.type === 'token' ? credentialOf(request, principal) : 'org');
}

/** Whose Idempotency-Keys a session token uses: its end user's, or those of the session that a visitor is in. Undefined for other callers. */
export function browserOf(request: FastifyRequest): string | undefined {
  const principal = principalOf(request);
  return principal.type === 'token' ? hash('sha256', credentialOf(request, principal), 'base64url') : undefined;
}

/** Recognizes the automatic retry of a client library, which sends no Idempotency-Key: by credential, path and body. */
export function retryFingerprintOf(request: FastifyRequest): string {
  return fingerprintOf(request, credentialOf(request, principalOf(request)));
}

/** Like `keyFingerprintOf`, for the operator, who acts for no org. */
export function operatorFingerprintOf(request: FastifyRequest): string {
  return fingerprintOf(request, 'operator');
}

/** Where a header names the session, the same body for another session is another request. */
function fingerprintOf(request: FastifyRequest, caller: string): string {
  const named = headerSessionOf(request);
  const session = typeof named === 'string' ? `\nsession ${named}` : '';
  return hash('sha256', `${caller}\n${request.method} ${request.url}${session}\n${request.rawBody}`, 'base64url');
}

function credentialOf(request: FastifyRequest, principal: Principal): string {
  switch (principal.type) {
    case 'key':
      return `key ${principal.keyId}`;
    case 'token': {
      if (principal.endUserId !== undefined) return `token ${principal.endUserId}`;
      // An anonymous visitor's next token has nothing in common with this one. Within a session, knowing its id is what identifies them.
      const session = sessionNamedBy(request);
      return session === undefined ? `visitor ${principal.tokenId}` : `visitor of ${session}`;
    }
    case 'member':
      return `member ${principal.userId}`;
  }
}

/** The session that the request is about, if the path or a header names it. */
function sessionNamedBy(request: FastifyRequest): unknown {
  return fieldOf(request.params, 'session_id') ?? headerSessionOf(request);
}

/** Undefined on routes that do not read the header: there anyone could send the same one. */
function headerSessionOf({ headers, routeOptions }: FastifyRequest): unknown {
  return routeOptions.config.sessionInHeader ? headers['x-svc-session'] : undefined;
}
