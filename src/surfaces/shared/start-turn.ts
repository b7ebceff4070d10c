import { hash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Principal } from '../../accounts/principal.ts';
import type { Context } from '../../context.ts';
import { ServiceError } from '../../errors.ts';
import type { Admission } from '../../turn/turns.ts';
import type { WatchableTurn } from '../../turn/watch.ts';
import { principalOf } from './authenticate.ts';

/** Stores the message of this request and starts its turn; the request's keys make a repetition of it the same turn. */
export async function startTurn(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  sessionId: string,
  admission: Pick<Admission, 'message' | 'live' | 'waitsForApproval' | 'endUserId'>,
): Promise<WatchableTurn> {
  const key = idempotencyKey(request);
  const turn = await context.turns.admit(principalOf(request).organization.id, sessionId, {
    ...admission,
    fingerprint: fingerprintOf(request, credentialOf(principalOf(request))),
    idempotency: key === undefined ? undefined : { key, fingerprint: keyFingerprintOf(request) },
  });
  request.turn = { sessionId: turn.sessionId, turnId: turn.turnId };
  if (turn.replayed) reply.header('idempotent-replayed', 'true');
  return turn;
}

/**
 * The turn that an earlier copy of this request started: by its Idempotency-Key, or, for a client library's own retry
 * without one, by its words. Undefined when this is the first.
 */
export async function findEarlierTurn(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  live: boolean,
): Promise<WatchableTurn | undefined> {
  const orgId = principalOf(request).organization.id;
  const key = idempotencyKey(request);
  if (key !== undefined) {
    const earlier = await findKey(context, orgId, key);
    if (earlier === undefined) return undefined;
    if (earlier.fingerprint !== keyFingerprintOf(request) || earlier.turn_id === null) throw keyReused();
    reply.header('idempotent-replayed', 'true');
    return context.turns.watchTurn(earlier.turn_id, live);
  }
  if (!(Number(request.headers['x-stainless-retry-count']) >= 1)) return undefined;
  const turnId = await context.turns.findByFingerprint(orgId, fingerprintOf(request, credentialOf(principalOf(request))));
  return turnId === undefined ? undefined : context.turns.watchTurn(turnId, live);
}

/** Whether the same request was answered under this key before; then its answer says so. */
export async function isRepeated(context: Context, request: FastifyRequest, reply: FastifyReply, key: string): Promise<boolean> {
  const earlier = await findKey(context, principalOf(request).organization.id, key);
  if (earlier === undefined) return false;
  if (earlier.fingerprint !== keyFingerprintOf(request)) throw keyReused();
  reply.header('idempotent-replayed', 'true');
  return true;
}

export function idempotencyKey(request: FastifyRequest): string | undefined {
  const key = request.headers['idempotency-key'];
  if (key === undefined) return undefined;
  if (typeof key === 'string' && key.length >= 1 && key.length <= 255) return key;
  throw new ServiceError(request.routeOptions.config.badBody ?? 'invalid', 'Idempotency-Key: must be 1 to 255 characters');
}

/** The answer under this key is not kept: the same request may run again. */
export async function forgetKey(context: Context, request: FastifyRequest): Promise<void> {
  const key = idempotencyKey(request);
  if (key === undefined) return;
  const { db } = context.database;
  await db.deleteFrom('idempotency_keys').where('org_id', '=', principalOf(request).organization.id).where('key', '=', key).execute();
}

export function keyReused(): ServiceError {
  return new ServiceError('invalid', 'This Idempotency-Key was used with another request.', { code: 'idempotency_key_reused' });
}

/**
 * What makes a request under an Idempotency-Key the same one: its path and body. Keys are the org's, so whichever of its
 * keys or members sends it; but an end user's browser is not the org, and never gets what another's was answered.
 */
export function keyFingerprintOf(request: FastifyRequest): string {
  const principal = principalOf(request);
  return fingerprintOf(request, principal.type === 'token' ? credentialOf(principal) : 'org');
}

function fingerprintOf(request: FastifyRequest, caller: string): string {
  return hash('sha256', `${caller}\n${request.method} ${request.url}\n${request.rawBody}`, 'base64url');
}

async function findKey(context: Context, orgId: number, key: string): Promise<{ fingerprint: string; turn_id: string | null } | undefined> {
  return context.database.db
    .selectFrom('idempotency_keys')
    .select(['fingerprint', 'turn_id'])
    .where('org_id', '=', orgId)
    .where('key', '=', key)
    .where('created_at', '>', new Date(Date.now() - 86_400_000))
    .executeTakeFirst();
}

function credentialOf(principal: Principal): string {
  switch (principal.type) {
    case 'key':
      return `key ${principal.keyId}`;
    case 'token':
      return `token ${principal.endUserId ?? principal.tokenId}`;
    case 'member':
      return `member ${principal.userId}`;
  }
}
