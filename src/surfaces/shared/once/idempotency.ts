import type { FastifyReply, FastifyRequest } from 'fastify';
import { giveBackKey, type KeptKey, keepResponse, type RequestKey, takeKey } from '../../../accounts/idempotency-keys.ts';
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

/** The key of the request with what an answer is kept under; undefined where it has none. */
export function requestKey(request: FastifyRequest): RequestKey | undefined {
  const key = idempotencyKey(request);
  if (key === undefined) return undefined;
  return { orgId: principalOf(request).organization.id, key, fingerprint: keyFingerprintOf(request) };
}

/** Keeps the answer of the request that took the key. */
export async function keepAnswer(context: Context, db: Db, own: RequestKey, answer: unknown): Promise<void> {
  await keepResponse(db, own, sealAnswer(context, own, answer));
}

/** Answers are kept encrypted, since they may hold a secret; moved to another org or key, one does not open. */
export function sealAnswer({ secrets }: Context, own: RequestKey, answer: unknown): string {
  return secrets.seal(JSON.stringify(answer), contextOf(own));
}

export function openAnswer<Answer>({ secrets }: Context, own: RequestKey, response: string): Answer {
  return JSON.parse(secrets.open(response, contextOf(own)));
}

function contextOf({ orgId, key }: RequestKey): string {
  return `org ${orgId} idempotency ${key}`;
}

/** Makes something once: its answer is kept in the same transaction, and a repetition gets it again. */
export async function makeUnderKey<Body>(
  context: Context,
  transaction: Db,
  reply: FastifyReply,
  own: RequestKey,
  work: () => Promise<Body>,
): Promise<Body> {
  const earlier = await takeKey(transaction, own, context.clock.now());
  if (earlier !== undefined) return answerAgain(context, reply, own, earlier);
  const body = await work();
  await keepAnswer(context, transaction, own, body);
  return body;
}

export function answerAgain<Body>(context: Context, reply: FastifyReply, own: RequestKey, earlier: KeptKey): Body {
  if (earlier.response === null) throw keyReused();
  sayReplayed(reply);
  return openAnswer(context, own, earlier.response);
}

/**
 * For work that has the same result however often it is done, so that no answer need be kept. Under a key a repetition is
 * marked as one, and another request is refused. `work` is told when the key was taken: the same key a day later is another.
 */
export async function underKey<Result>(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  work: (takenAt?: Date) => Promise<Result>,
): Promise<Result> {
  const own = requestKey(request);
  if (own === undefined) return work();
  const { db } = context.database;
  const now = context.clock.now();
  const earlier = await takeKey(db, own, now);
  const result = await work(earlier?.created_at ?? now).catch(async (error: unknown) => {
    // Nothing was done: another request may have the key.
    if (earlier === undefined && error instanceof ServiceError) await giveBackKey(db, own);
    throw error;
  });
  if (earlier !== undefined) sayReplayed(reply);
  return result;
}

export function sayReplayed(reply: FastifyReply): void {
  reply.header('idempotent-replayed', 'true');
}
