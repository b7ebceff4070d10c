import type { FastifyReply, FastifyRequest } from 'fastify';
import { findKey, type RequestKey, readKey } from '../../../accounts/idempotency-keys.ts';
import type { Context } from '../../../context.ts';
import { keyReused, ServiceError } from '../../../errors.ts';
import { findTurnByFingerprint } from '../../../turn/find-turns.ts';
import type { Admission } from '../../../turn/turns.ts';
import type { WatchableTurn } from '../../../turn/watch.ts';
import { principalOf } from '../caller/authenticate.ts';
import { retryFingerprintOf } from './fingerprints.ts';
import { idempotencyKey, isLibraryRetry, mayBeRepetition, requestKeyOf, sayReplayed } from './idempotency.ts';
import { findKeptTurn, openKeptTurn } from './kept-turn.ts';

// The turn that an earlier copy of a request started is found by its Idempotency-Key (`findTurnOfKey`), as the automatic retry of a client
// library, which sends none (`findRetriedTurn`), or by whichever of the two it has (`findEarlierTurn`). If the session was deleted after
// the turn, what was kept of it takes its place (`kept-turn.ts`).

/** `replayed`: an earlier copy of the request started it. */
export type StartedTurn = WatchableTurn & { replayed: boolean };

/** Stores the message of this request and starts its turn. A repetition with the same Idempotency-Key gets the same turn. */
export async function startTurn(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  sessionId: string,
  admission: Pick<Admission, 'message' | 'shows' | 'waitsForApproval' | 'endUserId'>,
): Promise<StartedTurn> {
  const requestKey = requestKeyOf(request);
  const turn = await context.turns
    .admit(principalOf(request).organization.id, sessionId, {
      ...admission,
      fingerprint: retryFingerprintOf(request),
      isRetry: requestKey === undefined && isLibraryRetry(request),
      idempotency: requestKey,
    })
    .catch(async (error: unknown) => {
      // An earlier copy of this request may have run: then its turn is the answer, even if a new message would be refused by now.
      if (!(error instanceof ServiceError)) throw error;
      const earlier = await findEarlierTurn(context, request, reply, admission.shows === 'live');
      if (earlier === undefined) throw error;
      return { ...earlier, replayed: true };
    });
  request.turn = { sessionId: turn.sessionId, turnId: turn.turnId };
  if (turn.replayed && requestKey !== undefined) sayReplayed(reply);
  return turn;
}

/**
 * The turn that an earlier copy of this request started, found by the Idempotency-Key or, for the automatic retry of a client
 * library without one, by the fingerprint. Undefined if this request is the first.
 */
export async function findEarlierTurn(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  live: boolean,
): Promise<WatchableTurn | undefined> {
  const requestKey = requestKeyOf(request);
  if (requestKey === undefined) return findRetriedTurn(context, request, live);
  const earlier = await findTurnOfKey(context, requestKey, live);
  if (earlier !== undefined) sayReplayed(reply);
  return earlier;
}

/**
 * The same for a request that names its session, but without a look at the Idempotency-Key. Admission looks at it anyway, and while this
 * request waited for a query of its own, a later message to the session could overtake it.
 */
export async function findRetriedTurn(context: Context, request: FastifyRequest, live: boolean): Promise<WatchableTurn | undefined> {
  if (idempotencyKey(request) !== undefined || !isLibraryRetry(request)) return undefined;
  const turnId = await findTurnOfRetry(context, request);
  return turnId === undefined ? findKeptTurn(context, request) : context.turns.subscribeTo(turnId, live);
}

/** The id of the turn that an earlier copy of this request started; undefined also if a different request used its Idempotency-Key. */
export async function findEarlierTurnId(context: Context, request: FastifyRequest): Promise<string | undefined> {
  if (!mayBeRepetition(request)) return undefined;
  const requestKey = requestKeyOf(request);
  if (requestKey === undefined) return findTurnOfRetry(context, request);
  const earlier = await readKey(context.database.db, requestKey);
  return earlier?.fingerprint === requestKey.fingerprint ? (earlier.turnId ?? undefined) : undefined;
}

/** The id of the turn that an earlier copy of a client library's retry started. */
function findTurnOfRetry({ database }: Context, request: FastifyRequest): Promise<string | undefined> {
  return findTurnByFingerprint(database.db, principalOf(request).organization.id, retryFingerprintOf(request));
}

async function findTurnOfKey(context: Context, requestKey: RequestKey, live: boolean): Promise<WatchableTurn | undefined> {
  const earlier = await findKey(context.database.db, requestKey);
  if (earlier === undefined) return undefined;
  const { turnId, response } = earlier;
  if (turnId === null) throw keyReused();
  if (response === null) return context.turns.subscribeTo(turnId, live);
  return openKeptTurn(context, requestKey, turnId, response);
}
