import type { FastifyReply, FastifyRequest } from 'fastify';
import { giveBackKey, holdKey, type RequestKey, takeKey, takeOverKey } from '../../../accounts/idempotency-keys.ts';
import type { Context } from '../../../context.ts';
import { isDatabaseFailure } from '../../../database/database.ts';
import { ServiceError } from '../../../errors.ts';
import { answerAgain, keepAnswer, requestKeyOf } from './idempotency.ts';

/**
 * For work outside of the database that must not be done twice. The key is taken before the work begins, and the answer is kept
 * for a repetition. During the work its process renews a hold on the key. If the process dies or the client leaves, the hold
 * expires: a repetition then does the work again if `mayRepeat` allows it, and is otherwise told that the outcome is unknown.
 */
export async function answerOnce<Answer>(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  mayRepeat: () => Promise<boolean>,
  work: () => Promise<Answer>,
): Promise<Answer> {
  const requestKey = requestKeyOf(request);
  if (requestKey === undefined) return work();
  const { db } = context.database;
  const { PARLEY_LEASE_MS: holdMs } = context.config;
  const taken = await takeKey(db, requestKey, { holdMs });
  let takenAt: Date | undefined = taken.takenAt;
  if (taken.earlier !== undefined) {
    const { earlier } = taken;
    if (earlier.response !== null) return answerAgain(context, reply, requestKey, earlier);
    if (earlier.isHeld) throw stillInProgress();
    if (!(await mayRepeat())) throw unknownOutcome();
    takenAt = await takeOverKey(db, requestKey, holdMs);
    if (takenAt === undefined) throw stillInProgress();
  }
  // If this process is halted for longer than the hold, another may take the key over, and do the same work.
  const own = { ...requestKey, takenAt };
  const answer = await holding(context, own, work).catch(async (error: unknown) => {
    // If the client left, or the answer of the database was lost, the work may have been done all the same: the key then stays, without
    // an answer. If it cannot be let go of now, the hold expires.
    if (isDatabaseFailure(error)) await holdKey(db, own, 0).catch(() => {});
    else if (!reply.raw.destroyed) await giveBackKey(db, own);
    throw error;
  });
  await keepAnswer(context, db, own, answer);
  return answer;
}

/** Renews the hold on the key for as long as the work takes. */
async function holding<Result>(context: Context, requestKey: RequestKey, work: () => Promise<Result>): Promise<Result> {
  const { PARLEY_LEASE_MS: holdMs } = context.config;
  const renew = () =>
    holdKey(context.database.db, requestKey, holdMs).catch((error: unknown) =>
      context.logger.warn({ err: error }, 'could not renew the hold on an idempotency key'),
    );
  const timer = setInterval(() => void renew(), holdMs / 4).unref();
  return work().finally(() => clearInterval(timer));
}

function stillInProgress(): ServiceError {
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
