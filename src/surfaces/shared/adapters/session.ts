import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '../../../context.ts';
import { isStored, type StoredEvent } from '../../../session/events.ts';
import { assertMetadata } from '../../../session/metadata.ts';
import { dropSession, type Session } from '../../../session/sessions.ts';
import { checkBudgetOfNew } from '../../../turn/budget.ts';
import { openSession } from '../../../turn/open-session.ts';
import type { SessionSetting } from '../../../turn/settings.ts';
import type { Admission } from '../../../turn/turns.ts';
import { isRest, type WatchableTurn, watchTurn } from '../../../turn/watch.ts';
import { principalOf } from '../caller/authenticate.ts';
import { actingUserOf, identityOf } from '../caller/identity.ts';
import { keepTurn } from '../once/kept-turn.ts';
import { startTurn } from '../once/start-turn.ts';
import { agentOf } from '../path.ts';

/** What the two adapters need to know of a session. */
export type TurnSession = Pick<Session, 'id' | 'orgId' | 'stored'>;

export function turnSession({ sessionId, orgId, stored }: SessionSetting): TurnSession {
  return { id: sessionId, orgId, stored };
}

/** A session that a call runs its turn in; `fresh` when the call itself opened it. */
export interface AdapterSession {
  session: TurnSession;
  fresh: boolean;
  endUserId: string | undefined;
}

interface WantedSession {
  surface: 'chat' | 'responses';
  metadata: Record<string, unknown>;
  stored: boolean;
  /** The id that a new session gets. */
  newSessionId?: string | undefined;
}

/** The session that the call names, or a new one. Its id is on every answer. */
export async function openForTurn(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  named: TurnSession | undefined,
  wanted: WantedSession,
): Promise<AdapterSession> {
  assertMetadata(wanted.metadata, 'invalid');
  const session = named ?? (await openNew(context, request, wanted));
  reply.header('x-svc-session', session.id);
  return { session, fresh: named === undefined, endUserId: actingUserOf(principalOf(request), wanted.metadata) };
}

/** Starts the turn. A session that was opened for it and did not come to run it is dropped again. */
export async function startTurnIn(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  opened: AdapterSession,
  admission: Pick<Admission, 'message' | 'shows'>,
): Promise<WatchableTurn> {
  const { session, fresh, endUserId } = opened;
  let turn: WatchableTurn | undefined;
  try {
    turn = await startTurn(context, request, reply, session.id, { ...admission, endUserId });
    if (fresh && turn.sessionId !== session.id) await forget(context, session);
    reply.header('x-svc-session', turn.sessionId);
    return turn;
  } catch (error) {
    turn?.subscription.close();
    if (fresh) {
      reply.removeHeader('x-svc-session');
      await forget(context, session);
    }
    throw error;
  }
}

/**
 * Drops a session that its caller did not want kept, once its turn has ended; one that pauses after `after` is kept for its
 * answer. What the turn answered is kept before where the same request may come again, so that a repetition need not run it.
 * Never throws: one that cannot be dropped now is dropped later, and that is no reason to keep the end of its turn from the client.
 */
export async function dropWhenEnded(
  context: Context,
  request: FastifyRequest,
  session: TurnSession,
  turnId: string,
  after = 0,
): Promise<void> {
  try {
    await keepAndDrop(context, request, session, turnId, after);
  } catch (error) {
    context.logger.warn({ err: error }, 'could not delete an unstored session yet');
  }
}

async function keepAndDrop(context: Context, request: FastifyRequest, session: TurnSession, turnId: string, after: number): Promise<void> {
  const events: StoredEvent[] = [];
  let last: string | undefined;
  const turn = { ...(await context.turns.watchTurn(turnId, false)), restAfter: after };
  for await (const updates of watchTurn(context.log, turn)) {
    last = updates.at(-1)?.type;
    events.push(...updates.filter(isStored));
  }
  if (last === undefined || !isRest(last)) return;
  await keepTurn(context, request, turn, events);
  if (last !== 'approval-requested') await forget(context, session, turnId);
}

/** Drops the session, unless a turn of another call is under way in it, or came after `lastTurn`: that call drops it then. */
export async function forget(context: Context, session: TurnSession, lastTurn?: string): Promise<void> {
  if (await dropSession(context.database.db, session.orgId, session.id, lastTurn)) context.feed.drop(session.id);
}

async function openNew(context: Context, request: FastifyRequest, wanted: WantedSession): Promise<Session> {
  const agent = agentOf(request);
  const { directory, database } = context;
  const identity = identityOf(principalOf(request), wanted.metadata);
  assertMetadata(identity.metadata, 'invalid');
  await checkBudgetOfNew(database.db, directory, agent, identity);
  context.turns.assertRoom(agent.orgId);
  const { surface, stored, newSessionId: sessionId } = wanted;
  return openSession(context, agent, { ...identity, surface, stored, sessionId, sameAgent: true });
}
