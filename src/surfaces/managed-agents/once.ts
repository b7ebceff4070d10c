import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '../../context.ts';
import { keyReused, ServiceError } from '../../errors.ts';
import { principalOf } from '../shared/authenticate.ts';
import {
  findKey,
  forgetKey,
  idempotencyKey,
  keepAnswer,
  keyFingerprintOf,
  sayReplayed,
  sealedFor,
  takeKey,
} from '../shared/idempotency.ts';

/**
 * Work that does no harm when it is done twice at the same moment. Under an Idempotency-Key it is not done again later: what
 * an interrupt was meant for has ended, and another turn may run by now.
 */
export async function once(context: Context, request: FastifyRequest, reply: FastifyReply, work: () => Promise<void>): Promise<void> {
  const key = idempotencyKey(request);
  if (key === undefined) return work();
  if ((await findKey(context, request, key)) !== undefined) return sayReplayed(reply);
  await work();
  const { id } = principalOf(request).organization;
  await takeKey(context.database.db, id, key, keyFingerprintOf(request), context.clock.now());
}

/** Work that must never be done twice: its key is taken before it begins, and its answer is kept for a repetition. */
export async function answerOnce(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  work: () => Promise<unknown>,
): Promise<unknown> {
  const key = idempotencyKey(request);
  if (key === undefined) return work();
  const { db } = context.database;
  const { id: orgId } = principalOf(request).organization;
  const fingerprint = keyFingerprintOf(request);
  const earlier = await takeKey(db, orgId, key, fingerprint, context.clock.now());
  if (earlier !== undefined) {
    if (earlier.fingerprint !== fingerprint) throw keyReused();
    if (earlier.response === null) throw unanswered();
    sayReplayed(reply);
    return JSON.parse(context.secrets.open(earlier.response, sealedFor(orgId, key)));
  }
  const answer = await work().catch(async (error: unknown) => {
    await forgetKey(context, request);
    throw error;
  });
  await keepAnswer(db, orgId, key, context.secrets.seal(JSON.stringify(answer), sealedFor(orgId, key)));
  return answer;
}

function unanswered(): ServiceError {
  return new ServiceError('conflict', 'The first request under this Idempotency-Key has no answer yet.', {
    code: 'idempotency_key_in_use',
    willPass: true,
  });
}
