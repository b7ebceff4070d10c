import type { FastifyRequest } from 'fastify';
import { keepTurnUnder, type RequestKey, readKey } from '../../../accounts/idempotency-keys.ts';
import type { Context } from '../../../context.ts';
import type { StoredEvent } from '../../../session/events.ts';
import { retryWindowMs } from '../../../turn/turns.ts';
import { type WatchableTurn, watchAgain } from '../../../turn/watch.ts';
import { principalOf } from '../caller/authenticate.ts';
import { retryFingerprintOf } from './fingerprints.ts';
import { idempotencyKey, openAnswer, requestKey, sealAnswer } from './idempotency.ts';

/** What is kept of a turn whose session is to be dropped: the same request, sent again, gets its answer from it. */
interface KeptTurn {
  sessionId: string;
  events: StoredEvent[];
}

/** Keeps what the answer is made of, if it may be asked for again. What was asked, and what tools gave, is no part of it. */
export async function keepTurn(
  context: Context,
  request: FastifyRequest,
  { sessionId, turnId }: WatchableTurn,
  events: StoredEvent[],
): Promise<void> {
  const own = keyOf(request);
  if (own === undefined) return;
  const said = events.filter(({ type }) => type !== 'message-received' && type !== 'tool-finished');
  const kept: KeptTurn = { sessionId, events: said };
  const answer = { turn_id: turnId, response: sealAnswer(context, own, kept), created_at: context.clock.now() };
  await keepTurnUnder(context.database.db, own, answer);
}

/** The turn of a request that was answered before, when its session is gone. */
export async function findKeptTurn(context: Context, request: FastifyRequest): Promise<WatchableTurn | undefined> {
  const kept = await findKept(context, request);
  if (kept === undefined || kept.turn_id === null) return undefined;
  return openKeptTurn(context, kept.own, kept.turn_id, kept.response);
}

/** The turn as it was, to be watched like any other. */
export function openKeptTurn(context: Context, own: RequestKey, turnId: string, sealed: string): WatchableTurn {
  const { sessionId, events } = openAnswer<KeptTurn>(context, own, sealed);
  const kept = events.map((event) => ({ ...event, createdAt: new Date(event.createdAt) }));
  return { ...watchAgain(context.feed, sessionId, turnId, 0, false), kept };
}

/**
 * Finds what a request names. Undefined when it is gone and this very request was answered before: a session that is not
 * stored is deleted after its turn, and a repetition still names it.
 */
export async function findUnlessAnswered<Found>(
  context: Context,
  request: FastifyRequest,
  find: () => Promise<Found>,
): Promise<Found | undefined> {
  return find().catch(async (error: unknown) => {
    if ((await findKept(context, request)) === undefined) throw error;
    return undefined;
  });
}

async function findKept(context: Context, request: FastifyRequest) {
  const own = mayBeRepetition(request) ? keyOf(request) : undefined;
  if (own === undefined) return undefined;
  const since = idempotencyKey(request) === undefined ? new Date(context.clock.now().getTime() - retryWindowMs) : undefined;
  const row = await readKey(context.database.db, own, since);
  if (row?.fingerprint !== own.fingerprint || row.response === null) return undefined;
  return { own, turn_id: row.turn_id, response: row.response };
}

/** Whether the client may have sent this before. Then it may name a session that was deleted after its turn. */
export function mayBeRepetition({ headers }: FastifyRequest): boolean {
  return headers['idempotency-key'] !== undefined || Number(headers['x-stainless-retry-count']) >= 1;
}

/** Under what the answer is kept: the request's key, or, for a client library that tries again without one, its words. */
function keyOf(request: FastifyRequest): RequestKey | undefined {
  const own = requestKey(request);
  if (own !== undefined) return own;
  if (request.headers['x-stainless-retry-count'] === undefined) return undefined;
  const fingerprint = retryFingerprintOf(request);
  // A header cannot hold a line break, so no client's own key is equal to this one.
  return { orgId: principalOf(request).organization.id, key: `retry\n${fingerprint}`, fingerprint };
}
