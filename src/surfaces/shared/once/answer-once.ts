import type { FastifyReply, FastifyRequest } from 'fastify';
import { giveBackKey, holdKey, type RequestKey, takeKey, takeOverKey } from '../../../accounts/idempotency-keys.ts';
import type { Context } from '../../../context.ts';
import { ServiceError } from '../../../errors.ts';
import { answerAgain, keepAnswer, requestKey } from './idempotency.ts';

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
  const own = requestKey(request);
  if (own === undefined) return work();
  const { db } = context.database;
  const earlier = await takeKey(db, own, context.clock.now(), { held_until: holdUntil(context) });
  if (earlier !== undefined) {
    if (earlier.response !== null) return answerAgain(context, reply, own, earlier);
    if (earlier.held_until !== null && earlier.held_until > context.clock.now()) throw unanswered();
    if (!(await mayRepeat())) throw unknownOutcome();
    if (!(await takeOverKey(db, own, earlier.held_until, holdUntil(context)))) throw unanswered();
  }
  const answer = await holding(context, own, work).catch(async (error: unknown) => {
    // The work is cut off when its client leaves, and may have been done by then: the key stays, without an answer, until its hold runs out.
    if (!reply.raw.destroyed) await giveBackKey(db, own);
    throw error;
  });
  await keepAnswer(context, db, own, answer);
  return answer;
}

function holdUntil({ clock, config }: Context): Date {
  return new Date(clock.now().getTime() + config.PARLEY_LEASE_MS);
}

/** Renews the hold for as long as the work takes. */
async function holding<Result>(context: Context, own: RequestKey, work: () => Promise<Result>): Promise<Result> {
  const renew = () =>
    holdKey(context.database.db, own, holdUntil(context)).catch((error: unknown) =>
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
