import type { FastifyRequest, onRequestAsyncHookHandler } from 'fastify';
import type { Context } from '../../context.ts';
import { orNotFound, ServiceError } from '../../errors.ts';
import { uploadPath } from '../../instances/upload.ts';
import { listAllSessions } from '../../session/list-sessions.ts';
import { assertMetadata } from '../../session/metadata.ts';
import type { Session } from '../../session/sessions.ts';
import { readTranscript } from '../../session/transcript.ts';
import { openSession } from '../../turn/open-session.ts';
import { principalOf, requireAgent } from '../shared/caller/authenticate.ts';
import { identityOf, refuseOtherIdentity } from '../shared/caller/identity.ts';
import { assertOpenToMember } from '../shared/caller/support-access.ts';
import { visibleSession, visibleSetting } from '../shared/caller/visible-session.ts';
import type { Server } from '../shared/fastify.ts';
import { answerOnce } from '../shared/once/answer-once.ts';
import { createSessionOnce } from '../shared/once/create-session.ts';
import { agentOf, pathParameter } from '../shared/path.ts';
import { answered } from '../shared/schemas/answers.ts';
import { Type } from '../shared/schemas/type.ts';
import { registerForBrowsers } from '../shared/server/cors.ts';
import { signalOfLeaving } from '../shared/streams/client-left.ts';
import { sendLongArray } from '../shared/streams/long-array.ts';
import { sendEvents } from '../shared/streams/sse.ts';
import { assertNamesEndUser, listFilter } from './end-user.ts';
import { streamLog } from './event-stream.ts';
import { postEvent } from './post-event.ts';
import { logEntry } from './project.ts';
import * as schemas from './schemas.ts';
import { decodeUpload } from './upload.ts';
import { warmFrames } from './warm-stream.ts';

const config = { family: 'agent', badBody: 'bad-request' } as const;
const tags = ['Managed agents'];

/** The managed-agents surface: a session is an ordered log that a browser can follow, and replay from any point. */
export function managedAgentRoutes(server: Server, context: Context): void {
  registerForBrowsers(server, context.config, '/:org/:agent/v1/managed-agents', (scope) => {
    const guard = requireAgent(context, 'key-or-token');
    collectionRoutes(scope, context, guard);
    conversationRoutes(scope, context, guard);
    readingRoutes(scope, context, guard);
    mcpRoute(scope, context, guard);
  });
}

function collectionRoutes(server: Server, context: Context, guard: onRequestAsyncHookHandler): void {
  const { db } = context.database;

  server.post(
    '/sessions',
    {
      config,
      onRequest: [guard],
      preValidation: [refuseOtherIdentity],
      schema: {
        tags,
        summary: 'Create a managed session',
        body: Type.Union([schemas.createBody, Type.Null()]),
        response: answered(201, schemas.session),
      },
    },
    async (request, reply) => {
      const { metadata = {}, prewarm = true, permission_mode } = request.body ?? {};
      const principal = principalOf(request);
      const identity = identityOf(principal, metadata);
      assertMetadata(metadata, 'bad-request');
      assertMetadata(identity.metadata, 'bad-request');
      const body = await createSessionOnce(context, request, reply, undefined, async (sessionId) => {
        const session = await openSession(context, agentOf(request), {
          ...identity,
          surface: 'managed',
          sessionId,
          permissionMode: principal.type === 'token' ? null : permission_mode,
          sameAgent: true,
        });
        if (prewarm) context.warm.begin(session.orgId, session.id);
        return sessionBodyOf(session);
      });
      return reply.code(201).send(body);
    },
  );

  server.get(
    '/sessions',
    {
      config,
      onRequest: [guard],
      schema: { tags, summary: 'List managed sessions', querystring: schemas.endUserQuery, response: answered(200, schemas.sessionList) },
    },
    async (request, reply) => {
      const { id: agentId, orgId } = agentOf(request);
      const filter = listFilter(principalOf(request), agentId, request.query.end_user);
      return sendLongArray(reply, { object: 'list' }, 'data', mapPages(listAllSessions(db, orgId, filter), sessionBodyOf));
    },
  );
}

function conversationRoutes(server: Server, context: Context, guard: onRequestAsyncHookHandler): void {
  const onRequest = [guard, requireSession(context)];
  // Checked from memory, as on the other surfaces: while one message waited for the database here, a later one could overtake it.
  const seesSession: onRequestAsyncHookHandler = (request) => visibleSetting(context, request, pathParameter(request, 'session_id'));

  server.post(
    '/sessions/:session_id/events',
    {
      config,
      onRequest: [guard, seesSession],
      schema: { tags, summary: 'Post a user event', body: schemas.eventBody, response: answered(202, schemas.accepted) },
    },
    async (request, reply) => {
      const session = { orgId: agentOf(request).orgId, id: pathParameter(request, 'session_id') };
      await postEvent(context, request, reply, session, request.body);
      return reply.code(202).send({ accepted: true });
    },
  );

  server.post(
    '/sessions/:session_id/files',
    {
      config,
      onRequest: [...onRequest, requireOpenToMember],
      bodyLimit: 14 * 1024 * 1024,
      schema: { tags, summary: 'Stage an upload', body: schemas.fileBody, response: answered(200, schemas.uploaded) },
    },
    async (request, reply) => {
      const { orgId, id } = sessionOf(request);
      const { name, content_base64 } = request.body;
      const path = uploadPath(name);
      const content = decodeUpload(content_base64);
      const mayRepeat = async () => true;
      return answerOnce(context, request, reply, mayRepeat, async () => {
        orNotFound(await context.uploads.stage(orgId, id, { name, content }));
        return { accepted: true as const, path };
      });
    },
  );

  server.post(
    '/sessions/:session_id/prewarm',
    { config, onRequest, schema: { tags, summary: 'Warm a session', response: answered(202, schemas.warming) } },
    async (request, reply) => {
      const { orgId, id } = sessionOf(request);
      context.warm.begin(orgId, id);
      return reply.code(202).send({ status: 'warming' });
    },
  );

  server.get(
    '/sessions/:session_id/warm',
    {
      config,
      onRequest,
      exposeHeadRoute: false,
      schema: {
        tags,
        summary: 'Follow the warming of a session',
        produces: ['text/event-stream'],
        response: answered(200, schemas.eventStream),
      },
    },
    async (request, reply) => {
      const { orgId, id } = sessionOf(request);
      await sendEvents(reply, (signal) => warmFrames(context.warm, orgId, id, signal));
      return reply;
    },
  );

  server.get(
    '/sessions/:session_id/events/stream',
    {
      config,
      onRequest: [...onRequest, requireOpenToMember],
      exposeHeadRoute: false,
      schema: {
        tags,
        summary: 'Stream the event log',
        querystring: schemas.streamQuery,
        produces: ['text/event-stream'],
        response: answered(200, schemas.eventStream),
      },
    },
    async (request, reply) => {
      streamLog(context, request, reply, sessionOf(request), request.query);
      return reply;
    },
  );
}

function readingRoutes(server: Server, context: Context, guard: onRequestAsyncHookHandler): void {
  const onRequest = [guard, requireSession(context), requireOpenToMember];

  server.get(
    '/sessions/:session_id',
    { config, onRequest, schema: { tags, summary: 'Fetch a session with its log', response: answered(200, schemas.sessionState) } },
    async (request, reply) => {
      const session = sessionOf(request);
      return sendLongArray(reply, sessionBodyOf(session), 'events', eventsOf(context, session));
    },
  );

  server.get(
    '/sessions/:session_id/transcript',
    {
      config,
      onRequest,
      schema: { tags, summary: 'Read the transcript', querystring: schemas.endUserQuery, response: answered(200, schemas.transcript) },
    },
    async (request, reply) => {
      const session = sessionOf(request);
      assertNamesEndUser(request, session, request.query.end_user);
      return sendLongArray(reply, { session_id: session.id }, 'messages', readTranscript(context.log, session.id));
    },
  );
}

function mcpRoute(server: Server, context: Context, guard: onRequestAsyncHookHandler): void {
  const findSession: onRequestAsyncHookHandler = async (request) => {
    const sessionId = request.headers['x-svc-session'];
    if (typeof sessionId !== 'string') return;
    request.session = await visibleSession(context, request, sessionId);
    await requireOpenToMember(request);
  };

  server.post(
    '/mcp',
    {
      config: { ...config, sessionInHeader: true },
      onRequest: [guard, findSession],
      schema: {
        tags,
        summary: "Use the session's MCP servers",
        body: schemas.mcpBody,
        response: answered(200, Type.Unknown()),
      },
    },
    async (request, reply) => {
      const { session } = request;
      if (session === undefined) throw new ServiceError('bad-request', 'X-Svc-Session: is required');
      const { method, params = {} } = request.body;
      const left = signalOfLeaving(reply);
      request.place?.leave();
      const { mcpProxy } = context;
      const mayRepeat = () => mcpProxy.mayRepeat(session, method, params);
      return answerOnce(context, request, reply, mayRepeat, () => mcpProxy.request(session, method, params, left));
    },
  );
}

/** Refuses members whose org has turned off access to what end users say. */
async function requireOpenToMember(request: FastifyRequest): Promise<void> {
  assertOpenToMember(request, sessionOf(request));
}

/** Runs before the body is checked: a session that the caller cannot see is 404, whatever else is wrong. */
function requireSession(context: Context): onRequestAsyncHookHandler {
  return async (request) => {
    request.session = await visibleSession(context, request, pathParameter(request, 'session_id'));
  };
}

function sessionOf(request: FastifyRequest): Session {
  return orNotFound(request.session);
}

function sessionBodyOf(session: Session): { id: string; object: 'session'; status: 'idle' | 'running' } {
  return { id: session.id, object: 'session', status: session.isRunning ? 'running' : 'idle' };
}

/** The log up to the `lastSeq` that was read with the session's status, so that both agree. */
async function* eventsOf(context: Context, { id, lastSeq }: Session): AsyncGenerator<unknown[]> {
  for await (const events of context.log.readAll(id)) {
    yield events.filter((event) => event.seq <= lastSeq).map((event) => logEntry(event, id));
    if ((events.at(-1)?.seq ?? 0) >= lastSeq) return;
  }
}

async function* mapPages<From, To>(pages: AsyncIterable<From[]>, map: (item: From) => To): AsyncGenerator<To[]> {
  for await (const page of pages) yield page.map(map);
}
