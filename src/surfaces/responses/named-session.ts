import type { FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import type { Context } from '../../context.ts';
import { notFound, orNotFound } from '../../errors.ts';
import { findSessionOfApproval } from '../../session/approvals.ts';
import type { RequestEcho } from '../../session/events.ts';
import type { Session } from '../../session/sessions.ts';
import { fieldOf } from '../../text/json.ts';
import { findTurnOfResponse } from '../../turn/find-turns.ts';
import { atMost } from '../../work/at-most.ts';
import { type TurnSession, turnSession } from '../shared/adapters/session.ts';
import { principalOf } from '../shared/caller/authenticate.ts';
import { isVisible, requireVisible, visibleSetting } from '../shared/caller/visible-session.ts';
import { findEarlierTurnId } from '../shared/once/start-turn.ts';
import { isAgentItem, isUserMessage } from './read-input.ts';
import { placeOfItem, placeOfResponse, type ResponsePlace, requestOfItem, responsePlace } from './response-ids.ts';

/** How many items of an input are looked up at most to find the session that they belong to. */
const maxLookups = 8;

/**
 * The sessions of recent responses, so that a request can continue from one without a query. Only for that, not for showing a
 * response: one that another process has deleted is known here for up to a minute.
 */
export class KnownResponses {
  private readonly sessions = new LRUCache<string, string>({ ...atMost(10_000), ttl: 60_000 });

  /** A session that is deleted after its turn is not remembered. */
  note(responseId: string, session: TurnSession): void {
    if (session.stored) this.sessions.set(responseId, session.id);
  }

  forget(responseId: string): void {
    this.sessions.delete(responseId);
  }

  sessionOf(responseId: string): string | undefined {
    return this.sessions.get(responseId);
  }
}

/**
 * The session that a request continues. What it names may have been deleted since an earlier copy of the request ran: then it is the
 * session in which that copy ran.
 */
export async function findNamedSession(
  context: Context,
  request: FastifyRequest,
  known: KnownResponses,
  body: unknown,
): Promise<TurnSession | undefined> {
  return readNamedSession(context, request, known, body).catch(async (error: unknown) => {
    const turnId = await findEarlierTurnId(context, request);
    if (turnId === undefined) throw error;
    return (await findResponse(context, request, responsePlace(turnId, 0).responseId)).session;
  });
}

/**
 * That of `previous_response_id`, else `conversation`, else that of the newest item of an earlier response that the input repeats.
 * Undefined if the request begins a new one. The body is not validated yet.
 */
async function readNamedSession(
  context: Context,
  request: FastifyRequest,
  known: KnownResponses,
  body: unknown,
): Promise<TurnSession | undefined> {
  const previous = fieldOf(body, 'previous_response_id');
  if (typeof previous === 'string') {
    const id = known.sessionOf(previous);
    if (id !== undefined) return turnSession(await visibleSetting(context, request, id));
    const { session } = await findResponse(context, request, previous);
    known.note(previous, session);
    return session;
  }
  const conversation = fieldOf(body, 'conversation');
  const sessionId = typeof conversation === 'object' ? fieldOf(conversation, 'id') : conversation;
  if (typeof sessionId === 'string') return turnSession(await visibleSetting(context, request, sessionId));
  return findSessionOfItems(context, request, fieldOf(body, 'input'));
}

export interface FoundResponse {
  place: ResponsePlace;
  session: Session;
  /** The fields of its request that the response repeats. */
  echo: RequestEcho;
}

/** Throws the same 404 for a response that is unknown, was deleted, was not kept or is not the caller's. */
export async function findResponse(context: Context, request: FastifyRequest, responseId: string): Promise<FoundResponse> {
  const place = orNotFound(placeOfResponse(responseId));
  const orgId = principalOf(request).organization.id;
  const turn = orNotFound(await findTurnOfResponse(context.database.db, orgId, place.turnId, responseId));
  const session = requireVisible(request, turn.session);
  if (place.after === 0) return { place, session, echo: turn.echo };
  const [start] = await context.log.read(session.id, place.after - 1, 1);
  if (start?.type !== 'approval-resolved' || start.turnId !== place.turnId) throw notFound();
  return { place, session, echo: start.data.echo ?? {} };
}

/** Throws 404 if the input only refers to items, or answers an approval, and the session that has them was not found. */
async function findSessionOfItems(context: Context, request: FastifyRequest, input: unknown): Promise<Session | undefined> {
  const orgId = principalOf(request).organization.id;
  const { db } = context.database;
  const lookedUp = new Set<string>();
  let needsSession = false;
  let isRepeated = false;
  for (const item of Array.isArray(input) ? input.toReversed() : []) {
    const id = fieldOf(item, 'id');
    const type = fieldOf(item, 'type');
    const asked = fieldOf(item, 'approval_request_id') ?? id;
    const place = typeof id === 'string' ? placeOfItem(id) : undefined;
    const requestId = typeof asked === 'string' ? requestOfItem(asked) : undefined;
    // The answer to an approval that stands ahead of an item of the agent, or of a user message, is only repeated.
    if (type === 'item_reference' || (type === 'mcp_approval_response' && !isRepeated)) needsSession = true;
    const kind = { type, role: fieldOf(item, 'role') };
    isRepeated ||= isAgentItem(kind) || isUserMessage(kind);
    const key = requestId ?? place?.responseId;
    if (key === undefined || lookedUp.has(key) || lookedUp.size >= maxLookups) continue;
    lookedUp.add(key);
    const session =
      place === undefined
        ? await findSessionOfApproval(db, orgId, key)
        : (await findTurnOfResponse(db, orgId, place.turnId, place.responseId))?.session;
    if (session !== undefined && isVisible(request, session)) return session;
  }
  if (needsSession) throw notFound();
  return undefined;
}
