import { hash } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import type { Principal } from '../../../accounts/principal.ts';
import { fieldOf } from '../../../json.ts';
import { principalOf } from '../caller/authenticate.ts';

/**
 * What makes a request under an Idempotency-Key the same one: its path and body. Keys are the org's, so whichever of its
 * keys or members sends it; but an end user's browser is not the org, and never gets what another's was answered.
 */
export function keyFingerprintOf(request: FastifyRequest): string {
  const principal = principalOf(request);
  return fingerprintOf(request, principal.type === 'token' ? credentialOf(request, principal) : 'org');
}

/** What makes a client library's own retry, which has no key, the same request: its credential, path and body. */
export function retryFingerprintOf(request: FastifyRequest): string {
  return fingerprintOf(request, credentialOf(request, principalOf(request)));
}

/** The same for the operator, who acts for no org of its own. */
export function operatorFingerprintOf(request: FastifyRequest): string {
  return fingerprintOf(request, 'operator');
}

/** Some routes name the session in a header: the same words in another session are another request. */
function fingerprintOf(request: FastifyRequest, caller: string): string {
  const named = request.headers['x-svc-session'];
  const session = typeof named === 'string' ? `\nsession ${named}` : '';
  return hash('sha256', `${caller}\n${request.method} ${request.url}${session}\n${request.rawBody}`, 'base64url');
}

function credentialOf(request: FastifyRequest, principal: Principal): string {
  switch (principal.type) {
    case 'key':
      return `key ${principal.keyId}`;
    case 'token':
      if (principal.endUserId !== undefined) return `token ${principal.endUserId}`;
      // A visitor's next token has nothing in common with this one; but within a session, whoever knows its id counts as the same.
      return isInSession(request) ? 'visitor' : `visitor ${principal.tokenId}`;
    case 'member':
      return `member ${principal.userId}`;
  }
}

/** Whether the path or a header names the session that the request is about. */
function isInSession({ headers, params }: FastifyRequest): boolean {
  return headers['x-svc-session'] !== undefined || fieldOf(params, 'session_id') !== undefined;
}
