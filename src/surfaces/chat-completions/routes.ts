import type { FastifyRequest, onRequestAsyncHookHandler, preValidationAsyncHookHandler } from 'fastify';
import type { Agent } from '../../accounts/agents.ts';
import type { Context } from '../../context.ts';
import { notFound } from '../../errors.ts';
import { adapterErrorBody, refuseUnknown } from '../shared/adapters/errors.ts';
import { principalOf, requireAgent } from '../shared/caller/authenticate.ts';
import { refuseOtherIdentity } from '../shared/caller/identity.ts';
import { assertMayJoin } from '../shared/caller/support-access.ts';
import { visibleSetting } from '../shared/caller/visible-session.ts';
import type { Server } from '../shared/fastify.ts';
import { mayBeRepetition } from '../shared/once/idempotency.ts';
import { findUnlessAnswered } from '../shared/once/kept-turn.ts';
import { agentOf, pathParameter } from '../shared/path.ts';
import { answeredByAdapter } from '../shared/schemas/answers.ts';
import { registerForBrowsers } from '../shared/server/cors.ts';
import { complete, namedSessionId } from './complete.ts';
import { chatBody, chatCompletion, modelList, modelObject } from './schemas.ts';

const config = { family: 'agent' as const, errorBody: adapterErrorBody };
const tags = ['Chat completions'];

/** The chat-completions adapter: existing client libraries of that API can talk to an agent. */
export function chatCompletionsRoutes(server: Server, context: Context): void {
  registerForBrowsers(server, context.config, '/:org/:agent/v1/chat', (scope) => {
    refuseUnknown(scope);
    completionRoute(scope, context);
  });
  registerForBrowsers(server, context.config, '/:org/:agent/v1/models', (scope) => {
    refuseUnknown(scope);
    modelRoutes(scope, context);
  });
}

function completionRoute(server: Server, context: Context): void {
  const assertHeaderSession = async (request: FastifyRequest) => {
    const named = request.headers['x-svc-session'];
    if (typeof named === 'string') await visibleSetting(context, request, named);
  };
  const requireHeaderSession: onRequestAsyncHookHandler = async (request) => {
    // A repeated request may name a session that was deleted after its turn. Telling whether it is one takes the body: see below.
    if (!mayBeRepetition(request)) await assertHeaderSession(request);
  };
  // Runs before the body is validated: a session that the caller cannot see is 404, whatever else is wrong.
  const requireNamedSession: preValidationAsyncHookHandler = async (request, reply) => {
    const named = namedSessionId(request, request.body);
    if (named === undefined) return;
    const found = await findUnlessAnswered(context, request, () => visibleSetting(context, request, named));
    if (found === undefined) return;
    await assertMayJoin(context, request, named);
    reply.header('x-svc-session', named);
  };

  server.post(
    '/completions',
    {
      config: { ...config, sessionInHeader: true },
      onRequest: [requireAgent(context, 'key-or-token'), requireHeaderSession],
      preValidation: [requireNamedSession, refuseOtherIdentity],
      errorHandler: async (error, request) => {
        // The body was read and is no JSON: this repeats no request that was answered.
        if (request.raw.readableEnded && request.body === undefined) await assertHeaderSession(request);
        throw error;
      },
      schema: { tags, summary: 'Create a chat completion', body: chatBody, response: answeredByAdapter(200, chatCompletion) },
    },
    (request, reply) => complete(context, request, reply, request.body),
  );
}

/** Client libraries and chat front ends list the models of a server: the agent is the only one. */
function modelRoutes(server: Server, context: Context): void {
  const onRequest = [requireAgent(context, 'key-or-token')];

  server.get(
    '',
    { config, onRequest, schema: { tags, summary: 'List the agent as a model', response: answeredByAdapter(200, modelList) } },
    async (request) => ({ object: 'list' as const, data: [modelOf(request, agentOf(request))] }),
  );

  server.get(
    '/:model',
    { config, onRequest, schema: { tags, summary: 'Fetch the agent as a model', response: answeredByAdapter(200, modelObject) } },
    async (request) => {
      const agent = agentOf(request);
      if (pathParameter(request, 'model') !== agent.slug) throw notFound();
      return modelOf(request, agent);
    },
  );
}

function modelOf(request: FastifyRequest, agent: Agent) {
  return {
    id: agent.slug,
    object: 'model' as const,
    created: Math.floor(agent.createdAt.getTime() / 1000),
    owned_by: principalOf(request).organization.slug,
  };
}
