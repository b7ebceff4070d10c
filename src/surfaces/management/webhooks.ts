import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Actor } from '../../audit/record.ts';
import type { Context } from '../../context.ts';
import type { Db } from '../../database/database.ts';
import { orNotFound } from '../../errors.ts';
import { disableEndpoint, enableEndpoint } from '../../outbox/endpoint-state.ts';
import {
  createEndpoint,
  deleteEndpoint,
  listEndpoints,
  rotateSecret,
  updateEndpoint,
  type WebhookEndpoint,
} from '../../outbox/endpoints.ts';
import { eventTypes } from '../../outbox/event-types.ts';
import { dropDeliveriesTo } from '../../outbox/retention.ts';
import { principalOf, requireKey, scopesOf } from '../shared/caller/authenticate.ts';
import { changeOnce, remove } from '../shared/change.ts';
import type { RouteFamily, Server } from '../shared/fastify.ts';
import { pathNumber } from '../shared/path.ts';
import { answered } from '../shared/schemas/answers.ts';
import { Type } from '../shared/schemas/type.ts';
import { endpointOfPath, requireEndpointOfPath } from './path.ts';
import { createBody, endpointObject, showEndpoint, updateBody } from './webhook-schemas.ts';

const tags = ['Webhooks'];
const config = { family: 'management' as const };
/** Spec 4.1 has this one path among the flat ones. */
const configOfList: { family: RouteFamily[] } = { family: ['base', 'management'] };
const answer = Type.Object({ webhook_endpoint: endpointObject });
const secretAnswer = Type.Object({ webhook_endpoint: endpointObject, secret: Type.String() });

export function webhookRoutes(server: Server, context: Context): void {
  const canRead = requireKey(context, 'webhooks:read');
  const canWrite = requireKey(context, 'webhooks:write');
  const seesEndpoint = requireEndpointOfPath(context);

  server.get(
    '/api/webhook_endpoints',
    {
      config: configOfList,
      onRequest: [requireKey(context)],
      schema: {
        tags,
        summary: 'List event types and webhook endpoints',
        description: 'Any key gets the supported event types. Without `webhooks:read` the list of endpoints is empty.',
        response: answered(200, Type.Object({ event_types: Type.Array(Type.String()), webhook_endpoints: Type.Array(endpointObject) })),
      },
    },
    async (request) => {
      const mayRead = scopesOf(principalOf(request)).has('webhooks:read');
      const endpoints = mayRead ? await listEndpoints(context.database.db, principalOf(request).organization.id) : [];
      return { event_types: [...eventTypes], webhook_endpoints: endpoints.map(showEndpoint) };
    },
  );

  server.post(
    '/api/webhook_endpoints',
    {
      config,
      onRequest: [canWrite],
      schema: {
        tags,
        summary: 'Create a webhook endpoint',
        description: 'The signing secret is shown only once.',
        body: createBody,
        response: answered(201, secretAnswer),
      },
    },
    async (request, reply) => {
      const { name, url, event_types: eventTypes = [] } = request.body;
      await context.destinations.webhooks.check(url);
      return changeOnce(context, request, reply, 201, async (transaction, actor) => {
        const { endpoint, secret } = await createEndpoint(transaction, actor, context.secrets, { name, url, eventTypes });
        return { webhook_endpoint: showEndpoint(endpoint), secret };
      });
    },
  );

  server.get(
    '/api/webhook_endpoints/:id',
    { config, onRequest: [canRead], schema: { tags, summary: 'Fetch a webhook endpoint', response: answered(200, answer) } },
    async (request) => ({ webhook_endpoint: showEndpoint(await endpointOfPath(context, request)) }),
  );

  server.patch(
    '/api/webhook_endpoints/:id',
    {
      config,
      onRequest: [canWrite, seesEndpoint],
      schema: { tags, summary: 'Change a webhook endpoint', body: updateBody, response: answered(200, answer) },
    },
    async (request, reply) => {
      const { name, url, event_types: eventTypes } = request.body;
      if (url !== undefined) await context.destinations.webhooks.check(url);
      return changeEndpoint(request, reply, (transaction, actor, id) => updateEndpoint(transaction, actor, id, { name, url, eventTypes }));
    },
  );

  server.delete(
    '/api/webhook_endpoints/:id',
    { config, onRequest: [canWrite], schema: { tags, summary: 'Delete a webhook endpoint', response: answered(204, Type.Null()) } },
    async (request, reply) => {
      const id = pathNumber(request, 'id');
      // Its deliveries first, in small steps: deleting the endpoint would delete what may be a million of them in one statement.
      await dropDeliveriesTo(context.database.db, principalOf(request).organization.id, id);
      return remove(context, request, reply, (transaction, actor) => deleteEndpoint(transaction, actor, id));
    },
  );

  server.post(
    '/api/webhook_endpoints/:id/enable',
    {
      config,
      onRequest: [canWrite, seesEndpoint],
      schema: { tags, summary: 'Enable a webhook endpoint', response: answered(200, answer) },
    },
    async (request, reply) => {
      const body = await changeEndpoint(request, reply, enableEndpoint);
      await context.courier.resume(pathNumber(request, 'id'));
      return body;
    },
  );

  server.post(
    '/api/webhook_endpoints/:id/disable',
    {
      config,
      onRequest: [canWrite, seesEndpoint],
      schema: { tags, summary: 'Disable a webhook endpoint', response: answered(200, answer) },
    },
    (request, reply) =>
      changeEndpoint(request, reply, (transaction, actor, id) => disableEndpoint(transaction, actor, id, 'Disabled by hand.')),
  );

  server.post(
    '/api/webhook_endpoints/:id/rotate_secret',
    {
      config,
      onRequest: [canWrite, seesEndpoint],
      schema: {
        tags,
        summary: 'Rotate the signing secret',
        description: 'For 24 hours both secrets sign, and `Svc-Signature` has two `v1` entries.',
        response: answered(200, secretAnswer),
      },
    },
    async (request, reply) => {
      const id = pathNumber(request, 'id');
      return changeOnce(context, request, reply, 200, async (transaction, actor) => {
        const rotated = orNotFound(await rotateSecret(transaction, actor, context.secrets, id));
        return { webhook_endpoint: showEndpoint(rotated.endpoint), secret: rotated.secret };
      });
    },
  );

  async function changeEndpoint(
    request: FastifyRequest,
    reply: FastifyReply,
    work: (transaction: Db, actor: Actor, id: number) => Promise<WebhookEndpoint | undefined>,
  ) {
    const id = pathNumber(request, 'id');
    return changeOnce(context, request, reply, 200, async (transaction, actor) => {
      const endpoint = orNotFound(await work(transaction, actor, id));
      return { webhook_endpoint: showEndpoint(endpoint) };
    });
  }
}
