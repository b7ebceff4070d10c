import type { FastifyRequest, onRequestAsyncHookHandler } from 'fastify';
import { timestamp } from '../../clock.ts';
import type { Context } from '../../context.ts';
import { countSessions, listSessions } from '../../session/list-sessions.ts';
import { assertMetadata, instanceIdOf } from '../../session/metadata.ts';
import { isTakenId } from '../../session/sessions.ts';
import { readTranscript } from '../../session/transcript.ts';
import { fieldOf } from '../../text/json.ts';
import { assertSessionId, openSession, resumeSession } from '../../turn/open-session.ts';
import { hideFromOtherAgents, principalOf, requireAgent, requireKey, requireScope } from '../shared/caller/authenticate.ts';
import { defaultAgent } from '../shared/caller/default-agent.ts';
import { refuseOtherIdentity } from '../shared/caller/identity.ts';
import { assertMayJoin, assertTranscriptsOpen } from '../shared/caller/support-access.ts';
import { visibleSession, visibleSetting } from '../shared/caller/visible-session.ts';
import type { RouteFamily, Server } from '../shared/fastify.ts';
import { createSessionOnce } from '../shared/once/create-session.ts';
import { agentOf, pathParameter } from '../shared/path.ts';
import { answered } from '../shared/schemas/answers.ts';
import { limitOf } from '../shared/schemas/list.ts';
import { Type } from '../shared/schemas/type.ts';
import { sendLongArray } from '../shared/streams/long-array.ts';
import { sessionBodyOf } from './answer.ts';
import { resolveApproval } from './resolve.ts';
import * as schemas from './schemas.ts';
import { sendMessage } from './send-message.ts';

const activityWindowMs = 15 * 60_000;

/** The native API twice: below /v1, where the org's default agent answers, and below each agent, with a few routes more. */
export function nativeRoutes(server: Server, context: Context): void {
  sessionRoutes(server, context, { prefix: '/v1', family: 'base', guard: requireKey(context), perAgent: false });
  sessionRoutes(server, context, { prefix: '/:org/:agent/v1', family: 'agent', guard: requireAgent(context, 'key'), perAgent: true });
  agentOnlyRoutes(server, context);
}

interface SessionRoutes {
  prefix: string;
  family: RouteFamily;
  guard: onRequestAsyncHookHandler;
  perAgent: boolean;
}

function sessionRoutes(server: Server, context: Context, { prefix, family, guard, perAgent }: SessionRoutes): void {
  const config = { family };
  const tags = [perAgent ? 'Agent sessions' : 'Sessions'];
  const seesSession = requireSession(context);
  const joinsSession: onRequestAsyncHookHandler = (request) => assertMayJoin(context, request, sessionIdOf(request));

  server.post(
    `${prefix}/sessions`,
    {
      config,
      onRequest: [guard],
      preValidation: [refuseOtherIdentity],
      errorHandler: async (error, request) => {
        await refuseHiddenSession(context, request);
        throw error;
      },
      schema: {
        tags,
        summary: 'Create or resume a session',
        body: Type.Union([schemas.sessionBody, Type.Null()]),
        response: answered(200, schemas.sessionObject),
      },
    },
    async (request, reply) => {
      const { metadata = {}, session_id, permission_mode } = request.body ?? {};
      assertMetadata(metadata, 'invalid');
      assertSessionId(session_id);
      const { organization } = principalOf(request);
      return createSessionOnce(context, request, reply, session_id, async (sessionId) => {
        const wanted = {
          surface: 'native' as const,
          sessionId,
          metadata,
          permissionMode: permission_mode,
          agentInstanceId: instanceIdOf(metadata),
          sameAgent: perAgent,
        };
        // Below /v1 an existing session continues with its own agent: the default agent is only for a new one.
        const session =
          (perAgent ? undefined : await resumeSession(context, organization.id, sessionId)) ??
          (await openSession(context, request.agent ?? (await defaultAgent(context, request)), wanted));
        return sessionBodyOf(session, request.agent, organization.slug);
      });
    },
  );

  server.get(
    `${prefix}/sessions/:session_id`,
    {
      config,
      onRequest: perAgent ? [hideFromOtherAgents(context), guard] : [guard],
      schema: { tags, summary: 'Fetch a session', response: answered(200, schemas.sessionObject) },
    },
    async (request) => {
      const session = await visibleSession(context, request, sessionIdOf(request));
      return sessionBodyOf(session, request.agent, principalOf(request).organization.slug);
    },
  );

  server.post(
    `${prefix}/sessions/:session_id/messages`,
    {
      config,
      onRequest: [guard, seesSession, joinsSession],
      schema: { tags, summary: 'Send a message', body: schemas.messageBody, response: answered(200, schemas.messageObject) },
    },
    (request, reply) => sendMessage(context, request, reply, sessionIdOf(request), request.body),
  );

  server.put(
    `${prefix}/sessions/:session_id/inputs/:request_id`,
    {
      config,
      onRequest: [guard, seesSession, joinsSession],
      schema: { tags, summary: 'Resolve an approval', body: schemas.resolveBody, response: answered(200, schemas.resolution) },
    },
    (request, reply) => resolveApproval(context, request, reply, sessionIdOf(request), request.body.decision),
  );
}

function agentOnlyRoutes(server: Server, context: Context): void {
  const config = { family: 'agent' as const };
  const tags = ['Agent sessions'];
  const guard = requireAgent(context, 'key');
  const seesSession = requireSession(context);

  server.get(
    '/:org/:agent/v1/sessions',
    {
      config,
      onRequest: [guard],
      schema: { tags, summary: 'List sessions', querystring: schemas.listQuery, response: answered(200, schemas.sessionList) },
    },
    async (request) => {
      const agent = agentOf(request);
      const page = Math.max(1, request.query.page ?? 1);
      const perPage = limitOf({ limit: request.query.per_page });
      const activeSince = new Date(context.clock.now().getTime() - activityWindowMs);
      const filter = { agentId: agent.id, ...(request.query.active ? { activeSince } : {}) };
      const { db } = context.database;
      const total = await countSessions(db, agent.orgId, filter);
      const offset = (page - 1) * perPage;
      // For a page beyond the last, the database would read every session only to return none.
      const sessions = offset < total ? await listSessions(db, agent.orgId, filter, offset, perPage) : [];
      return {
        agent: { ref: `${principalOf(request).organization.slug}/${agent.slug}`, agent_id: agent.id },
        page,
        per_page: perPage,
        total,
        sessions: sessions.map((session) => ({
          id: session.id,
          status: session.status,
          message_count: session.messageCount,
          last_message_at: session.lastMessageAt === null ? null : timestamp(session.lastMessageAt),
          end_user_id: session.endUserId ?? null,
        })),
      };
    },
  );

  server.get(
    '/:org/:agent/v1/sessions/:session_id/messages',
    {
      config,
      onRequest: [guard, seesSession, requireScope('sessions:read')],
      schema: { tags, summary: 'Read the transcript', response: answered(200, schemas.transcript) },
    },
    async (request, reply) => {
      const { id, status } = await visibleSession(context, request, sessionIdOf(request));
      assertTranscriptsOpen(request);
      return sendLongArray(reply, { session: { id, status } }, 'messages', readTranscript(context.log, id));
    },
  );

  server.delete(
    '/:org/:agent/v1/sessions/:session_id',
    { config, onRequest: [guard, seesSession], schema: { tags, summary: 'Stop a session', response: answered(204, Type.Null()) } },
    async (request, reply) => {
      await context.turns.interrupt(agentOf(request).orgId, sessionIdOf(request), 'stop');
      return reply.code(204).send();
    },
  );
}

/** Runs before the scope and the body are checked: a session that the caller cannot see is 404, whatever else is wrong. */
function requireSession(context: Context): onRequestAsyncHookHandler {
  return (request) => visibleSetting(context, request, sessionIdOf(request));
}

/**
 * Runs when the creation of a session is refused: if the body names a session that the caller cannot see, that is 404, whatever
 * else is wrong. A creation that goes well finds this out itself.
 */
async function refuseHiddenSession(context: Context, request: FastifyRequest): Promise<void> {
  const sessionId = fieldOf(request.body, 'session_id');
  if (typeof sessionId === 'string' && (await isTakenId(context.database.db, sessionId))) await visibleSession(context, request, sessionId);
}

function sessionIdOf(request: FastifyRequest): string {
  return pathParameter(request, 'session_id');
}
