import type { FastifyReply, FastifyRequest } from 'fastify';
import { findKey, type RequestKey } from '../../../accounts/idempotency-keys.ts';
import type { Context } from '../../../context.ts';
import { keyReused, ServiceError } from '../../../errors.ts';
import type { Admission } from '../../../turn/turns.ts';
import type { WatchableTurn } from '../../../turn/watch.ts';
import { principalOf } from '../caller/authenticate.ts';
import { retryFingerprintOf } from './fingerprints.ts';
import { idempotencyKey, requestKey, sayReplayed } from './idempotency.ts';
import { findKeptTurn, openKeptTurn } from './kept-turn.ts';

/** Stores the message of this request and starts its turn; the request's keys make a repetition of it the same turn. */
export async function startTurn(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  sessionId: string,
  admission: Pick<Admission, 'message' | 'shows' | 'waitsForApproval' | 'endUserId'>,
): Promise<WatchableTurn> {
  const own = requestKey(request);
  const turn = await context.turns
    .admit(principalOf(request).organization.id, sessionId, {
      ...admission,
      fingerprint: retryFingerprintOf(request),
      idempotency: own,
    })
    .catch(async (error: unknown) => {
      // The same request may have run before, or meanwhile: then it is answered as it was, whatever stands in its way by now.
      const mayHaveRun = error instanceof ServiceError && own !== undefined;
      const earlier = mayHaveRun ? await findTurnOfKey(context, own, admission.shows === 'live') : undefined;
      if (earlier === undefined) throw error;
      return { ...earlier, replayed: true };
    });
  request.turn = { sessionId: turn.sessionId, turnId: turn.turnId };
  if (turn.replayed) sayReplayed(reply);
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
  const own = requestKey(request);
  if (own !== undefined) {
    const earlier = await findTurnOfKey(context, own, live);
    if (earlier !== undefined) sayReplayed(reply);
    return earlier;
  }
  return findRetriedTurn(context, request, live);
}

/**
 * The turn of a library's own retry, where the session is known and admission looks at a key itself: looking ahead of it would
 * let later messages overtake this one.
 */
export async function findRetriedTurn(context: Context, request: FastifyRequest, live: boolean): Promise<WatchableTurn | undefined> {
  if (idempotencyKey(request) !== undefined || !(Number(request.headers['x-stainless-retry-count']) >= 1)) return undefined;
  const turnId = await context.turns.findByFingerprint(principalOf(request).organization.id, retryFingerprintOf(request));
  return turnId === undefined ? findKeptTurn(context, request) : context.turns.watchTurn(turnId, live);
}

async function findTurnOfKey(context: Context, own: RequestKey, live: boolean): Promise<WatchableTurn | undefined> {
  const earlier = await findKey(context.database.db, own);
  if (earlier === undefined) return undefined;
  const { turn_id: turnId, response } = earlier;
  if (turnId === null) throw keyReused();
  if (response === null) return context.turns.watchTurn(turnId, live);
  return openKeptTurn(context, own, turnId, response);
}
