import type { FastifyRequest } from 'fastify';
import { keepTurnUnder, type RequestKey, readKey } from '../../../accounts/idempotency-keys.ts';
import type { Context } from '../../../context.ts';
import type { StoredEvent } from '../../../session/events.ts';
import { retryWindowMs } from '../../../turn/find-turns.ts';
import { subscribeAgain, type WatchableTurn } from '../../../turn/watch.ts';
import { principalOf } from '../caller/authenticate.ts';
import { retryFingerprintOf } from './fingerprints.ts';
import { idempotencyKey, mayBeRepetition, openAnswer, requestKeyOf, sealAnswer } from './idempotency.ts';

/** What is kept of a turn whose session is deleted after it, so that a repeated request gets the same answer. */
interface KeptTurn {
  sessionId: string;
  events: StoredEvent[];
}

/** Keeps the events that the answer is made from, if the request can be repeated. The user's message and tool results are not needed. */
export async function keepTurn(
  context: Context,
  request: FastifyRequest,
  { sessionId, turnId }: WatchableTurn,
  events: StoredEvent[],
): Promise<void> {
  const requestKey = keptUnder(request);
  if (requestKey === undefined) return;
  const needed = events.filter(({ type }) => type !== 'message-received' && type !== 'tool-finished');
  const kept: KeptTurn = { sessionId, events: needed };
  await keepTurnUnder(context.database.db, requestKey, { turnId, response: sealAnswer(context, requestKey, kept) });
}

/** The turn of an earlier copy of this request whose session was deleted after it. */
export async function findKeptTurn(context: Context, request: FastifyRequest): Promise<WatchableTurn | undefined> {
  const kept = await findKept(context, request);
  if (kept === undefined || kept.turnId === null) return undefined;
  return openKeptTurn(context, kept.requestKey, kept.turnId, kept.response);
}

/** Decrypts a kept turn. It can be watched like one whose events are in the log. */
export function openKeptTurn(context: Context, requestKey: RequestKey, turnId: string, sealed: string): WatchableTurn {
  const { sessionId, events } = openAnswer<KeptTurn>(context, requestKey, sealed);
  const kept = events.map((event) => ({ ...event, createdAt: new Date(event.createdAt) }));
  return { ...subscribeAgain(context.feed, sessionId, turnId, 0, false), kept };
}

/**
 * Finds the session that a request names. Undefined if it is not found because it was deleted after a turn of this very request:
 * then the request is a repetition and its answer was kept.
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
  const requestKey = mayBeRepetition(request) ? keptUnder(request) : undefined;
  if (requestKey === undefined) return undefined;
  const withinMs = idempotencyKey(request) === undefined ? retryWindowMs : undefined;
  const row = await readKey(context.database.db, requestKey, withinMs);
  if (row?.fingerprint !== requestKey.fingerprint || row.response === null) return undefined;
  return { requestKey, turnId: row.turnId, response: row.response };
}

/** Where the answer is kept: under the Idempotency-Key, or, for a client library that retries without one, the fingerprint. */
function keptUnder(request: FastifyRequest): RequestKey | undefined {
  const requestKey = requestKeyOf(request);
  if (requestKey !== undefined) return requestKey;
  if (request.headers['x-stainless-retry-count'] === undefined) return undefined;
  const fingerprint = retryFingerprintOf(request);
  // A header cannot contain a line break, so this equals no key that a client sends.
  return { orgId: principalOf(request).organization.id, key: `retry\n${fingerprint}`, fingerprint };
}
