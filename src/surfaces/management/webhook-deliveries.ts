import type { FastifyRequest } from 'fastify';
import type { Context } from '../../context.ts';
import { notFound, orNotFound, ServiceError } from '../../errors.ts';
import { findDelivery, listDeliveries, resendDelivery, sendTest } from '../../outbox/deliveries.ts';
import { isEventType } from '../../outbox/event-types.ts';
import { recoverRange } from '../../outbox/recover.ts';
import { principalOf, requireKey } from '../shared/caller/authenticate.ts';
import { isClosedToMember } from '../shared/caller/support-access.ts';
import { changeOnce } from '../shared/change.ts';
import type { Server } from '../shared/fastify.ts';
import { answerOnce } from '../shared/once/answer-once.ts';
import { pathNumber, pathParameter, requireFound } from '../shared/path.ts';
import { answered } from '../shared/schemas/answers.ts';
import { decodeBigintCursor, limitOf, listOf, pageOf, pageQuery } from '../shared/schemas/list.ts';
import { Type } from '../shared/schemas/type.ts';
import { endpointOfPath, requireEndpointOfPath } from './path.ts';
import { deliveryObject, recoverBody, showDelivery, showWithoutMessage, testBody } from './webhook-schemas.ts';

const tags = ['Webhooks'];
const config = { family: 'management' as const };
const answer = Type.Object({ delivery: deliveryObject });

/** The deliveries to an endpoint: listing, testing, resending and recovering them. */
export function webhookDeliveryRoutes(server: Server, context: Context): void {
  const canRead = requireKey(context, 'webhooks:read');
  const canWrite = requireKey(context, 'webhooks:write');
  const { db } = context.database;
  const seesEndpoint = requireEndpointOfPath(context);
  const deliveryOf = async (request: FastifyRequest) =>
    orNotFound(await findDelivery(db, principalOf(request).organization.id, deliveryId(request)));

  server.get(
    '/api/webhook_endpoints/:id/deliveries',
    {
      config,
      onRequest: [canRead, seesEndpoint],
      schema: {
        tags,
        summary: 'List deliveries',
        querystring: Type.Object({ ...pageQuery, state: Type.Optional(Type.Enum(['pending', 'delivered', 'failed'])) }),
        response: answered(200, listOf(deliveryObject)),
      },
    },
    async (request) => {
      const page = {
        limit: limitOf(request.query),
        before: decodeBigintCursor('webhook_deliveries', request.query.cursor),
        state: request.query.state,
      };
      const { id: orgId } = principalOf(request).organization;
      const { deliveries, hasMore } = await listDeliveries(db, orgId, pathNumber(request, 'id'), page);
      return pageOf('webhook_deliveries', deliveries, hasMore, (delivery) => delivery.position, projectionFor(request));
    },
  );

  server.post(
    '/api/webhook_endpoints/:id/test',
    {
      config,
      onRequest: [canWrite, seesEndpoint],
      schema: {
        tags,
        summary: 'Send a test delivery',
        description: 'One attempt with example data (`data.test` is true), even if the endpoint is disabled. It never counts as a failure.',
        body: Type.Union([testBody, Type.Null()]),
        response: answered(202, answer),
      },
    },
    async (request, reply) => {
      const endpoint = await endpointOfPath(context, request);
      const type = request.body?.event_type ?? endpoint.eventTypes[0] ?? 'session.started';
      if (!isEventType(type)) throw new ServiceError('invalid', `event_type: "${type}" is not a supported event type`);
      const { organization } = principalOf(request);
      return changeOnce(context, request, reply, 202, async (transaction, actor) => {
        const delivery = orNotFound(await sendTest(transaction, organization, endpoint.id, type, actor.at));
        return { delivery: projectionFor(request)(delivery) };
      });
    },
  );

  server.post(
    '/api/webhook_endpoints/:id/recover',
    {
      config,
      onRequest: [canWrite, seesEndpoint],
      schema: {
        tags,
        summary: 'Recover a time range',
        description: 'Sends what the endpoint missed: failed deliveries, and events that were never sent to it.',
        body: recoverBody,
        response: answered(202, Type.Object({ recovered: Type.Integer() })),
      },
    },
    async (request, reply) => {
      const now = context.clock.now();
      const range = {
        from: parseTime('from', request.body.from),
        to: request.body.to === undefined ? now : parseTime('to', request.body.to),
      };
      if (range.from > range.to) throw new ServiceError('invalid', 'from: must not be after to');
      const { organization } = principalOf(request);
      reply.code(202);
      // What was recovered before is pending or delivered, which `recoverRange` leaves alone.
      const mayRepeat = async () => true;
      return answerOnce(context, request, reply, mayRepeat, async () => ({
        recovered: orNotFound(await recoverRange(db, organization, pathNumber(request, 'id'), range, now)),
      }));
    },
  );

  server.get(
    '/api/webhook_deliveries/:id',
    { config, onRequest: [canRead], schema: { tags, summary: 'Fetch a delivery', response: answered(200, answer) } },
    async (request) => ({ delivery: projectionFor(request)(await deliveryOf(request)) }),
  );

  server.post(
    '/api/webhook_deliveries/:id/resend',
    {
      config,
      onRequest: [canWrite, requireFound(deliveryOf)],
      schema: {
        tags,
        summary: 'Resend a delivery',
        description: 'One more attempt right away, with exactly the same body. It never counts as a failure. 409 after 100 attempts.',
        response: answered(202, answer),
      },
    },
    async (request, reply) => {
      const id = deliveryId(request);
      return changeOnce(context, request, reply, 202, async (transaction, actor) => {
        const delivery = orNotFound(await resendDelivery(transaction, actor.orgId, id, actor.at));
        return { delivery: projectionFor(request)(delivery) };
      });
    },
  );
}

/** The destination is sent all of it; a member is not shown what was said while support access is off. */
function projectionFor(request: FastifyRequest) {
  return isClosedToMember(request) ? showWithoutMessage : showDelivery;
}

/** Only a valid UUID reaches the database, where any other text would fail the statement. */
function deliveryId(request: FastifyRequest): string {
  const id = pathParameter(request, 'id');
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id)) throw notFound();
  return id;
}

/** A time without an offset is in UTC. JavaScript alone would take it to be in the server's time zone. */
function parseTime(name: string, text: string): Date {
  const isLocal = /T[\d:.]+$/.test(text);
  const date = /^\d{4}-\d{2}-\d{2}(T|$)/.test(text) ? new Date(isLocal ? `${text}Z` : text) : new Date(Number.NaN);
  // A UTC offset can move the time into year 0 or 10000, which PostgreSQL and JavaScript write differently.
  const isUsual = !Number.isNaN(date.getTime()) && date.getUTCFullYear() >= 1 && date.getUTCFullYear() <= 9_999;
  if (!isUsual) throw new ServiceError('invalid', `${name}: must be an ISO 8601 time`);
  return date;
}
