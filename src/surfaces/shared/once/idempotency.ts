import type { FastifyReply, FastifyRequest } from 'fastify';
import { giveBackKey, type KeptKey, keepResponse, takeKey } from '../../../accounts/idempotency-keys.ts';
import type { Context } from '../../../context.ts';
import type { Db } from '../../../database/database.ts';
import { keyReused, ServiceError } from '../../../errors.ts';
import { principalOf } from '../caller/authenticate.ts';
import { keyFingerprintOf } from './fingerprints.ts';

export function idempotencyKey(request: FastifyRequest): string | undefined {
  const key = request.headers['idempotency-key'];
  if (key === undefined) return undefined;
  if (typeof key === 'string' && key.length >= 1 && key.length <= 255) return key;
  throw new ServiceError(request.routeOptions.config.badBody ?? 'invalid', 'Idempotency-Key: must be 1 to 255 characters');
}

/** Keeps the answer of the request that took the key. */
export async function keepAnswer(context: Context, db: Db, orgId: number, key: string, answer: unknown): Promise<void> {
  await keepResponse(db, orgId, key, sealAnswer(context, orgId, key, answer));
}

/** Answers are kept encrypted, since they may hold a secret; moved to another org or key, one does not open. */
export function sealAnswer({ secrets }: Context, orgId: number, key: string, answer: unknown): string {
  return secrets.seal(JSON.stringify(answer), `org ${orgId} idempotency ${key}`);
}

export function openAnswer<Answer>({ secrets }: Context, orgId: number, key: string, response: string): Answer {
  return JSON.parse(secrets.open(response, `org ${orgId} idempotency ${key}`));
}

/** The answer under this key is not kept: the same request may run again. */
export async function forgetKey(context: Context, request: FastifyRequest): Promise<void> {
  const key = idempotencyKey(request);
  if (key !== undefined) await giveBackKey(context.database.db, principalOf(request).organization.id, key);
}

/** Makes something once: its answer is kept in the same transaction, and a repetition gets it again. */
export async function makeUnderKey<Body>(
  context: Context,
  transaction: Db,
  reply: FastifyReply,
  { orgId, key, fingerprint }: { orgId: number; key: string; fingerprint: string },
  work: () => Promise<Body>,
): Promise<Body> {
  const earlier = await takeKey(transaction, orgId, key, fingerprint, context.clock.now());
  if (earlier !== undefined) return answerAgain(context, reply, orgId, key, earlier);
  const body = await work();
  await keepAnswer(context, transaction, orgId, key, body);
  return body;
}

export function answerAgain<Body>(context: Context, reply: FastifyReply, orgId: number, key: string, earlier: KeptKey): Body {
  if (earlier.response === null) throw keyReused();
  sayReplayed(reply);
  return openAnswer(context, orgId, key, earlier.response);
}

/**
 * For work that has the same result however often it is done, so that no answer need be kept. Under a key a repetition is
 * marked as one, and another request is refused.
 */
export async function underKey<Result>(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  work: () => Promise<Result>,
): Promise<Result> {
  const key = idempotencyKey(request);
  if (key === undefined) return work();
  const fingerprint = keyFingerprintOf(request);
  const earlier = await takeKey(context.database.db, principalOf(request).organization.id, key, fingerprint, context.clock.now());
  const result = await work().catch(async (error: unknown) => {
    // Nothing was done: another request may have the key.
    if (earlier === undefined && error instanceof ServiceError) await forgetKey(context, request);
    throw error;
  });
  if (earlier !== undefined) sayReplayed(reply);
  return result;
}

export function sayReplayed(reply: FastifyReply): void {
  reply.header('idempotent-replayed', 'true');
}
