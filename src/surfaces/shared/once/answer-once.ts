import type { FastifyReply, FastifyRequest } from 'fastify';
import { holdKey, takeKey, takeOverKey } from '../../../accounts/idempotency-keys.ts';
import type { Context } from '../../../context.ts';
import { ServiceError } from '../../../errors.ts';
import { principalOf } from '../caller/authenticate.ts';
import { keyFingerprintOf } from './fingerprints.ts';
import { answerAgain, forgetKey, idempotencyKey, keepAnswer } from './idempotency.ts';

/**
 * Work that must never be done twice: its key is taken before it begins, and its answer is kept for a repetition. While it
 * goes on its process holds the key; when that has died, or the client left, a repetition does it again if it may be, as in
 * a turn, and is otherwise told that nobody knows what came of it.
 */
export async function answerOnce<Answer>(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  mayRepeat: () => Promise<boolean>,
  work: () => Promise<Answer>,
): Promise<Answer> {
  const key = idempotencyKey(request);
  if (key === undefined) return work();
  const { db } = context.database;
  const { id: orgId } = principalOf(request).organization;
  const fingerprint = keyFingerprintOf(request);
  const earlier = await takeKey(db, orgId, key, fingerprint, context.clock.now(), { held_until: holdUntil(context) });
  if (earlier !== undefined) {
    if (earlier.response !== null) return answerAgain(context, reply, orgId, key, earlier);
    if (earlier.held_until !== null && earlier.held_until > context.clock.now()) throw unanswered();
    if (!(await mayRepeat())) throw unknownOutcome();
    if (!(await takeOverKey(db, orgId, key, earlier.held_until, holdUntil(context)))) throw unanswered();
  }
  const answer = await holding(context, orgId, key, work).catch(async (error: unknown) => {
    // The work is cut off when its client leaves, and may have been done by then: the key stays, without an answer, until its hold runs out.
    if (!reply.raw.destroyed) await forgetKey(context, request);
    throw error;
  });
  await keepAnswer(context, db, orgId, key, answer);
  return answer;
}

function holdUntil({ clock, config }: Context): Date {
  return new Date(clock.now().getTime() + config.PARLEY_LEASE_MS);
}

/** Renews the hold for as long as the work takes. */
async function holding<Result>(context: Context, orgId: number, key: string, work: () => Promise<Result>): Promise<Result> {
  const renew = () =>
    holdKey(context.database.db, orgId, key, holdUntil(context)).catch((error: unknown) =>
      context.logger.warn({ err: error }, 'could not renew the hold on an idempotency key'),
    );
  const timer = setInterval(() => void renew(), context.config.PARLEY_LEASE_MS / 4).unref();
  return work().finally(() => clearInterval(timer));
}

function unanswered(): ServiceError {
  return new ServiceError('conflict', 'The first request with this Idempotency-Key has not finished yet.', {
    code: 'idempotency_key_in_use',
    willPass: true,
  });
}

function unknownOutcome(): ServiceError {
  return new ServiceError(
    'conflict',
    'The first request under this Idempotency-Key broke off. Its outcome is unknown; it was not run again.',
    { code: 'outcome_unknown' },
  );
}
