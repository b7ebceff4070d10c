import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '../../../context.ts';
import { dropSession } from '../../../session/drop-sessions.ts';
import { isStored, type StoredEvent } from '../../../session/events.ts';
import { assertMetadata } from '../../../session/metadata.ts';
import type { Session } from '../../../session/sessions.ts';
import { checkBudgetOfNew } from '../../../turn/budget.ts';
import { openSession } from '../../../turn/open-session.ts';
import type { SessionSetting } from '../../../turn/settings.ts';
import type { Admission } from '../../../turn/turns.ts';
import { isRest, type WatchableTurn, watchTurn } from '../../../turn/watch.ts';
import { principalOf } from '../caller/authenticate.ts';
import { actingUserOf, identityOf } from '../caller/identity.ts';
import { keepTurn } from '../once/kept-turn.ts';
import { findEarlierTurn, findRetriedTurn, type StartedTurn, startTurn } from '../once/start-turn.ts';
import { agentOf } from '../path.ts';

/** What the two adapters need to know of a session. */
export type TurnSession = Pick<Session, 'id' | 'orgId' | 'stored'>;

export function turnSession({ sessionId, orgId, stored }: SessionSetting): TurnSession {
  return { id: sessionId, orgId, stored };
}

/** The session that a request runs its turn in; `isNew` if the request itself opened it. */
export interface AdapterSession {
  session: TurnSession;
  isNew: boolean;
  endUserId: string | undefined;
}

interface WantedSession {
  surface: 'chat' | 'responses';
  metadata: Record<string, unknown>;
  stored: boolean;
  /** False for a request without a message: no turn runs that could be refused. */
  runsTurn: boolean;
  /** The id that a new session gets. */
  newSessionId?: string | undefined;
}

/** Drops a session that its caller did not want kept, and never throws; undefined for a session that is kept. */
export type DropSession = (() => Promise<void>) | undefined;

/** The turn that an earlier copy of this request started. `named` is the session that the request continues. */
export async function findRepeatedTurn(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  named: TurnSession | undefined,
  live: boolean,
): Promise<WatchableTurn | undefined> {
  const turn = await (named === undefined ? findEarlierTurn(context, request, reply, live) : findRetriedTurn(context, request, live));
  if (turn !== undefined) reply.header('x-svc-session', turn.sessionId);
  return turn;
}

/** The session that the request names, or a new one. Every response names it in a header. */
export async function openNamedOrNew(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  named: TurnSession | undefined,
  wanted: WantedSession,
): Promise<AdapterSession> {
  assertMetadata(wanted.metadata, 'invalid');
  const session = named ?? (await openNew(context, request, wanted));
  reply.header('x-svc-session', session.id);
  return { session, isNew: named === undefined, endUserId: actingUserOf(principalOf(request), wanted.metadata) };
}

/**
 * Starts the turn. A session that was opened for it is dropped again if the turn is refused, or if the same request, sent at the
 * same time, has started the turn in a session of its own.
 */
export async function startTurnIn(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  opened: AdapterSession,
  admission: Pick<Admission, 'message' | 'shows'>,
): Promise<StartedTurn> {
  const { session, isNew, endUserId } = opened;
  let turn: StartedTurn | undefined;
  try {
    turn = await startTurn(context, request, reply, session.id, { ...admission, endUserId });
    if (isNew && turn.sessionId !== session.id) await dropUnlessUsed(context, session, 0);
    reply.header('x-svc-session', turn.sessionId);
    return turn;
  } catch (error) {
    turn?.subscription.close();
    if (isNew) {
      reply.removeHeader('x-svc-session');
      await dropUnlessUsed(context, session, 0);
    }
    throw error;
  }
}

/**
 * How to drop the session when its turn has ended, if it is not to be kept. `after` is where in the turn this response begins: a
 * turn that pauses after it keeps its session until the approval is answered. A turn in another session than this one was
 * started by the same request, sent at the same time, which drops that session itself.
 */
export function dropAfter(
  context: Context,
  request: FastifyRequest,
  session: TurnSession,
  { sessionId, turnId }: WatchableTurn,
  after = 0,
): DropSession {
  if (session.stored || sessionId !== session.id) return undefined;
  return async () => {
    try {
      await keepAndDrop(context, request, session, turnId, after);
    } catch (error) {
      // The client still gets the end of the turn: upkeep deletes the session later.
      context.logger.warn({ err: error }, 'could not delete an unstored session yet');
    }
  };
}

/** Waits for the end of the turn. Its response is kept first if the request may be repeated, so that the turn need not run again. */
async function keepAndDrop(context: Context, request: FastifyRequest, session: TurnSession, turnId: string, after: number): Promise<void> {
  const events: StoredEvent[] = [];
  const turn = { ...(await context.turns.subscribeTo(turnId, false)), restAfter: after };
  for await (const updates of watchTurn(context.log, turn)) events.push(...updates.filter(isStored));
  const last = events.at(-1);
  if (last === undefined || !isRest(last.type)) return;
  await keepTurn(context, request, turn, events);
  if (last.type !== 'approval-requested') await dropUnlessUsed(context, session, last.seq);
}

/** Drops the session, unless another request has a turn in it that is under way or came after `lastSeq`: that request drops it. */
export async function dropUnlessUsed(context: Context, session: TurnSession, lastSeq?: number): Promise<void> {
  if (await dropSession(context.database.db, session.orgId, session.id, lastSeq)) context.feed.drop(session.id);
}

async function openNew(context: Context, request: FastifyRequest, wanted: WantedSession): Promise<Session> {
  const agent = agentOf(request);
  const identity = identityOf(principalOf(request), wanted.metadata);
  assertMetadata(identity.metadata, 'invalid');
  const { surface, stored, runsTurn, newSessionId: sessionId } = wanted;
  const open = () => openSession(context, agent, { ...identity, surface, stored, sessionId, sameAgent: true });
  if (!runsTurn) return open();
  return context.turns.withPlace(agent.orgId, async () => {
    await checkBudgetOfNew(context, agent, identity);
    return open();
  });
}
