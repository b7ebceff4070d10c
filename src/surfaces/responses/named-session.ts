import type { FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import type { Context } from '../../context.ts';
import { notFound, orNotFound } from '../../errors.ts';
import { fieldOf } from '../../json.ts';
import type { RequestEcho } from '../../session/events.ts';
import { findSessionOfApproval, findTurnOfResponse, type Session } from '../../session/sessions.ts';
import { type TurnSession, turnSession } from '../shared/adapters/session.ts';
import { principalOf } from '../shared/caller/authenticate.ts';
import { isVisible, visible, visibleSetting } from '../shared/caller/visible-session.ts';
import { isAnswer, isUserMessage } from './read-input.ts';
import { placeOfItem, placeOfResponse, type ResponsePlace } from './response-ids.ts';

/** At most this many of the input's items are looked up to find their session. */
const maxLookups = 8;

/**
 * The sessions of recent responses, so that continuing one needs no query. It is not used to fetch a response: if another process
 * deletes one, this cache may still have it for a minute.
 */
export class KnownResponses {
  private readonly sessions = new LRUCache<string, string>({ max: 10_000, ttl: 60_000 });

  /** Sessions that are not kept are not remembered. */
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
 * The session that a body continues: that of `previous_response_id`, else `conversation`, else the session of the newest item in
 * the input that one of our responses had. Undefined if the request starts a new session. The body is not validated yet.
 */
export async function findNamedSession(
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
  return findEchoed(context, request, fieldOf(body, 'input'));
}

export interface FoundResponse {
  place: ResponsePlace;
  session: Session;
  /** What the response repeats of its request. */
  echo: RequestEcho;
}

/** A response and its session. Throws the same 404 whether it is unknown, deleted or not visible to the caller. */
export async function findResponse(context: Context, request: FastifyRequest, responseId: string): Promise<FoundResponse> {
  const place = orNotFound(placeOfResponse(responseId));
  const orgId = principalOf(request).organization.id;
  const turn = orNotFound(await findTurnOfResponse(context.database.db, orgId, place.turnId, responseId));
  const session = visible(request, turn.session);
  if (place.after === 0) return { place, session, echo: turn.echo };
  const [start] = await context.log.read(session.id, place.after - 1, 1);
  if (start?.type !== 'approval-resolved' || start.turnId !== place.turnId) throw notFound();
  return { place, session, echo: start.data.echo ?? {} };
}

async function findEchoed(context: Context, request: FastifyRequest, input: unknown): Promise<Session | undefined> {
  const orgId = principalOf(request).organization.id;
  const { db } = context.database;
  const seen = new Set<string>();
  let isReferred = false;
  let isPast = false;
  for (const item of Array.isArray(input) ? input.toReversed() : []) {
    const id = fieldOf(item, 'id');
    const type = fieldOf(item, 'type');
    const requestId = fieldOf(item, 'approval_request_id') ?? id;
    const place = typeof id === 'string' ? placeOfItem(id) : undefined;
    const isRequest = typeof requestId === 'string' && requestId.startsWith('req_');
    // An answer to an approval that comes before an item of the agent, or before a message, is repeated from an earlier request.
    if (type === 'item_reference' || (type === 'mcp_approval_response' && !isPast)) isReferred = true;
    const kind = { type, role: fieldOf(item, 'role') };
    isPast ||= isAnswer(kind) || isUserMessage(kind);
    const key = isRequest ? requestId : place?.responseId;
    if (key === undefined || seen.has(key) || seen.size >= maxLookups) continue;
    seen.add(key);
    const session =
      place === undefined
        ? await findSessionOfApproval(db, orgId, key)
        : (await findTurnOfResponse(db, orgId, place.turnId, place.responseId))?.session;
    if (session !== undefined && isVisible(request, session)) return session;
  }
  // The input refers to items, or answers an approval, of a session that was not found.
  if (isReferred) throw notFound();
  return undefined;
}
