import type { FastifyRequest, onRequestAsyncHookHandler, preValidationAsyncHookHandler } from 'fastify';
import type { Context } from '../../context.ts';
import { orNotFound } from '../../errors.ts';
import { adapterErrorBody, refuseUnknown } from '../shared/adapters/errors.ts';
import type { TurnSession } from '../shared/adapters/session.ts';
import { requireAgent } from '../shared/caller/authenticate.ts';
import { refuseOtherIdentity } from '../shared/caller/identity.ts';
import { assertMayJoin, assertOpenToMember } from '../shared/caller/support-access.ts';
import type { Server } from '../shared/fastify.ts';
import { findUnlessAnswered } from '../shared/once/kept-turn.ts';
import { pathParameter } from '../shared/path.ts';
import { answeredByAdapter } from '../shared/schemas/answers.ts';
import { registerForBrowsers } from '../shared/server/cors.ts';
import { listInputItems } from './input-items.ts';
import { type FoundResponse, findNamedSession, findResponse, KnownResponses } from './named-session.ts';
import { respond } from './respond.ts';
import { deletedResponse, fetchQuery, inputItemList, inputItemsQuery, responseObject, responseRequest } from './schemas.ts';
import { cancelResponse, fetchResponse, removeResponse } from './stored-response.ts';

/** The responses adapter: existing client libraries of that API can talk to an agent. */
export function responsesRoutes(server: Server, context: Context): void {
  registerForBrowsers(server, context.config, '/:org/:agent/v1/responses', (scope) => {
    refuseUnknown(scope);
    addRoutes(scope, context);
  });
}

function addRoutes(server: Server, context: Context): void {
  const config = { family: 'agent' as const, errorBody: adapterErrorBody };
  const tags = ['Responses'];
  const guard = requireAgent(context, 'key-or-token');
  const known = new KnownResponses();
  /** What the hooks found, for the handlers. */
  const named = new WeakMap<FastifyRequest, TurnSession>();
  const fetched = new WeakMap<FastifyRequest, FoundResponse>();

  // Runs before the body is validated: a session that the caller cannot see is 404, whatever else is wrong.
  const requireNamedSession: preValidationAsyncHookHandler = async (request, reply) => {
    const session = await findUnlessAnswered(context, request, () => findNamedSession(context, request, known, request.body));
    if (session === undefined) return;
    await assertMayJoin(context, request, session.id);
    reply.header('x-svc-session', session.id);
    named.set(request, session);
  };

  const requireResponse: onRequestAsyncHookHandler = async (request) => {
    const found = await findResponse(context, request, responseIdOf(request));
    assertOpenToMember(request, found.session);
    fetched.set(request, found);
  };

  server.post(
    '',
    {
      config,
      onRequest: [guard],
      preValidation: [requireNamedSession, refuseOtherIdentity],
      schema: { tags, summary: 'Create a response', body: responseRequest, response: answeredByAdapter(200, responseObject) },
    },
    (request, reply) => respond({ context, request, reply, body: request.body, named: named.get(request) }, known),
  );

  server.get(
    '/:response_id',
    {
      config,
      onRequest: [guard, requireResponse],
      schema: { tags, summary: 'Fetch a response', querystring: fetchQuery, response: answeredByAdapter(200, responseObject) },
    },
    (request, reply) => {
      const found = orNotFound(fetched.get(request));
      const { stream = false, starting_after: startingAfter = -1 } = request.query;
      return fetchResponse(context, request, reply, found, stream ? { startingAfter } : undefined);
    },
  );

  server.get(
    '/:response_id/input_items',
    {
      config,
      onRequest: [guard, requireResponse],
      schema: {
        tags,
        summary: 'List the input items of a response',
        querystring: inputItemsQuery,
        response: answeredByAdapter(200, inputItemList),
      },
    },
    (request, reply) => listInputItems(context, reply, orNotFound(fetched.get(request)), request.query),
  );

  server.post(
    '/:response_id/cancel',
    {
      config,
      onRequest: [guard, requireResponse],
      schema: { tags, summary: 'Cancel a response', response: answeredByAdapter(200, responseObject) },
    },
    (request, reply) => cancelResponse(context, request, reply, orNotFound(fetched.get(request))),
  );

  server.delete(
    '/:response_id',
    {
      config,
      onRequest: [guard, requireResponse],
      schema: { tags, summary: 'Delete a response', response: answeredByAdapter(200, deletedResponse) },
    },
    async (request, reply) => {
      known.forget(responseIdOf(request));
      return removeResponse(context, reply, orNotFound(fetched.get(request)));
    },
  );
}

function responseIdOf(request: FastifyRequest): string {
  return pathParameter(request, 'response_id');
}
