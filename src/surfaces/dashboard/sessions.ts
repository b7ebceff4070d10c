import type { FastifyRequest } from 'fastify';
import type { Agent } from '../../accounts/agents.ts';
import { timestamp, validDay } from '../../clock.ts';
import type { Context } from '../../context.ts';
import { notFound, orNotFound } from '../../errors.ts';
import { countWaitingApprovals, listWaitingApprovals } from '../../session/approvals.ts';
import { type FoundSession, findSessionRow, type SessionSearch, searchSessions, sessionsPerRelease } from '../../session/search.ts';
import { findSession } from '../../session/sessions.ts';
import { openSession } from '../../turn/open-session.ts';
import { principalOf, requireKey } from '../shared/caller/authenticate.ts';
import type { Server } from '../shared/fastify.ts';
import { pathParameter } from '../shared/path.ts';
import { badCursor, decodeCursor, encodeCursor, limitOf } from '../shared/schemas/list.ts';
import { playgroundBody, type SearchQuery, searchQuery } from './schemas.ts';

const config = { family: 'management' as const };
/** Each is shown in full, with its arguments. Further ones appear when these have been answered. */
const maxApprovals = 200;

/** Sessions and approvals of all agents of an org. The public API shows only those of one agent at a time. */
export function dashboardSessionRoutes(server: Server, context: Context): void {
  const { db } = context.database;
  const onRequest = [requireKey(context, 'sessions:read')];

  server.get('/dashboard/api/sessions', { config, onRequest, schema: { hide: true, querystring: searchQuery } }, async (request) => {
    const { id: orgId } = principalOf(request).organization;
    const { agent: slug } = request.query;
    const agent = slug === undefined ? undefined : await context.directory.agentBySlug(orgId, slug);
    if (slug !== undefined && agent === undefined) return { data: [], next_cursor: null };
    const limit = limitOf(request.query);
    const search = { ...searchOf(request.query), limit: limit + 1, agentId: agent?.id };
    const { sessions, horizon } = await searchSessions(db, orgId, search);
    const page = sessions.slice(0, limit);
    const last = sessions.length > limit ? page.at(-1) : horizon;
    // Even a short or empty page may have a next one, because a search examines a limited number of sessions per page.
    return { data: page.map(showSession), next_cursor: last === undefined ? null : encodeCursor('sessions', [last.position, last.id]) };
  });

  server.get('/dashboard/api/sessions/:session_id', { config, onRequest, schema: { hide: true } }, async (request) => {
    const { id: orgId } = principalOf(request).organization;
    const id = pathParameter(request, 'session_id');
    const [row, session] = await Promise.all([findSessionRow(db, orgId, id), findSession(db, orgId, id)]);
    if (row === undefined || session === undefined) throw notFound();
    const { currentAgent, permissionMode, metadata, instanceKey } = session;
    return {
      session: { ...showSession(row), current_agent: currentAgent, permission_mode: permissionMode, metadata, instance: instanceKey },
    };
  });

  server.get('/dashboard/api/approvals', { config, onRequest, schema: { hide: true } }, async (request) => {
    const { approvals, hasMore } = await listWaitingApprovals(db, principalOf(request).organization.id, maxApprovals);
    return {
      data: approvals.map(({ sessionId, agent, endUserId, request: asked, createdAt }) => ({
        request_id: asked.requestId,
        session_id: sessionId,
        agent,
        end_user_id: endUserId,
        tool: asked.tool,
        input: asked.input,
        message: asked.message,
        options: asked.options,
        created_at: timestamp(createdAt),
      })),
      is_partial: hasMore,
    };
  });

  server.get('/dashboard/api/approvals/count', { config, onRequest, schema: { hide: true } }, async (request) => ({
    pending: await countWaitingApprovals(db, principalOf(request).organization.id),
  }));

  server.get('/dashboard/api/agents/:slug/pins', { config, onRequest, schema: { hide: true } }, async (request) => {
    const agent = await findAgent(request, pathParameter(request, 'slug'));
    return { data: await sessionsPerRelease(db, agent.orgId, agent.id) };
  });

  /** Opens a session on any release, so that one can be tried before it is activated. */
  server.post(
    '/dashboard/api/playground/sessions',
    { config, onRequest: [requireKey(context, 'releases:read')], schema: { hide: true, body: playgroundBody } },
    async (request, reply) => {
      const agent = await findAgent(request, request.body.agent);
      const session = await openSession(
        context,
        { ...agent, activeVersion: request.body.release },
        { surface: 'managed', metadata: { source: 'playground' }, sameAgent: true },
      );
      return reply.code(201).send({ id: session.id });
    },
  );

  async function findAgent(request: FastifyRequest, slug: string): Promise<Agent> {
    return orNotFound(await context.directory.agentBySlug(principalOf(request).organization.id, slug));
  }
}

function searchOf({ state, surface, release, q, cursor }: SearchQuery): Omit<SessionSearch, 'limit'> {
  const position = decodeCursor('sessions', cursor, ['text', 'text']);
  const after = position === undefined ? undefined : { updatedAt: String(position[0]), id: String(position[1]) };
  if (after !== undefined && !isTime(after.updatedAt)) throw badCursor();
  return { state, surface, release, text: q?.trim() || undefined, after };
}

/** Whether the text of a cursor is a time as PostgreSQL writes it: any other would fail in the query. */
function isTime(text: string): boolean {
  const timeOfDay = /^ ([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?[+-](0\d|1[0-5])(:[0-5]\d)?$/;
  return validDay(text.slice(0, 10)) !== undefined && timeOfDay.test(text.slice(10));
}

function showSession(session: FoundSession) {
  return {
    id: session.id,
    agent: session.agent,
    release: session.release,
    surface: session.surface,
    status: session.status,
    state: session.state,
    end_user_id: session.endUserId,
    message_count: session.messageCount,
    event_count: session.eventCount,
    created_at: timestamp(session.createdAt),
    updated_at: timestamp(session.updatedAt),
  };
}
