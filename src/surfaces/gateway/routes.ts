import { hash } from 'node:crypto';
import type { FastifyRequest, preValidationAsyncHookHandler } from 'fastify';
import type { Static } from 'typebox';
import type { Context } from '../../context.ts';
import type { GatewayEvent } from '../../gateway/event.ts';
import { newId } from '../../ids.ts';
import { assertMetadata } from '../../session/metadata.ts';
import { fieldOf } from '../../text/json.ts';
import { principalOf, requireKey } from '../shared/caller/authenticate.ts';
import { defaultAgent } from '../shared/caller/default-agent.ts';
import { refuseMembersWhileClosed } from '../shared/caller/support-access.ts';
import { visibleSession } from '../shared/caller/visible-session.ts';
import type { Server } from '../shared/fastify.ts';
import { retryFingerprintOf } from '../shared/once/fingerprints.ts';
import { idempotencyKey, underKey } from '../shared/once/idempotency.ts';
import { findRetriedTurn } from '../shared/once/start-turn.ts';
import { answered } from '../shared/schemas/answers.ts';
import { deliveryBody, done, eventBody } from './schemas.ts';

const tags = ['Gateway'];
const config = { family: 'base' as const };
const ok = { status: 'ok' as const };

/** Without a configured gateway these paths do not exist. */
export function gatewayRoutes(server: Server, context: Context): void {
  const { gateway } = context;
  if (gateway === undefined) return;
  // Whoever takes part in a session is sent what is said in it, at a gateway of their choice.
  const onRequest = [requireKey(context), refuseMembersWhileClosed];
  // Runs before the body is validated: a session that the caller cannot see is 404, whatever else is wrong. Not checked are events
  // for another gateway, whose session is there, and events from another gateway: one that was here before is dropped silently.
  const requireLocalSession: preValidationAsyncHookHandler = async (request) => {
    const { body } = request;
    const sessionId = fieldOf(body, 'session_id');
    const passed = [fieldOf(body, 'hops'), fieldOf(fieldOf(body, 'event'), 'hops')];
    const isPassedOn = passed.some((hops) => Array.isArray(hops) && hops.length > 0);
    const isLocal = typeof fieldOf(body, 'recipient_gateway_url') !== 'string' && !isPassedOn;
    if (isLocal && typeof sessionId === 'string') await visibleSession(context, request, sessionId);
  };

  server.post(
    '/v1/gateway/events',
    {
      config,
      onRequest,
      preValidation: [requireLocalSession],
      schema: {
        tags,
        summary: 'Submit an event',
        description:
          "A message runs a turn of the session's agent, and the reply goes to the other participants. `X-Svc-Session` names the session.",
        body: eventBody,
        response: answered(200, done),
      },
    },
    async (request, reply) => {
      const retried = await findRetriedTurn(context, request, false);
      retried?.subscription.close();
      const sessionId =
        retried?.sessionId ??
        (await underKey(context, request, reply, async (takenAt) =>
          gateway.submit(principalOf(request).organization.id, {
            event: eventOf(request.body, request, 'metadata', takenAt),
            fingerprint: retryFingerprintOf(request),
            agent: () => defaultAgent(context, request),
          }),
        ));
      if (sessionId !== undefined) reply.header('x-svc-session', sessionId);
      return ok;
    },
  );

  server.post(
    '/v1/gateway/deliveries',
    {
      config,
      onRequest,
      preValidation: [requireLocalSession],
      schema: {
        tags,
        summary: 'Deliver an event',
        description: 'Adds the event to the log of a session at this gateway, or forwards it to `recipient_gateway_url`.',
        body: deliveryBody,
        response: answered(200, done),
      },
    },
    async (request, reply) => {
      const { recipient_id: recipientId, session_id: sessionId, recipient_gateway_url: recipientGatewayUrl } = request.body;
      const { id: orgId } = principalOf(request).organization;
      await underKey(context, request, reply, async (takenAt) => {
        const event = eventOf(request.body.event, request, 'event.metadata', takenAt);
        await gateway.deliver(orgId, { recipientId, event, sessionId, recipientGatewayUrl });
      });
      return ok;
    },
  );
}

/** An event without an id gets one from the Idempotency-Key and the time of its first use, so that a retry is the same event. */
function eventOf(body: Static<typeof eventBody>, request: FastifyRequest, metadataField: string, takenAt: Date | undefined): GatewayEvent {
  if (body.metadata !== undefined) assertMetadata(body.metadata, 'invalid', metadataField);
  const idOfKey = takenAt && `idem_${hash('sha256', `${idempotencyKey(request)} ${takenAt.toISOString()}`)}`;
  return {
    id: body.id ?? idOfKey ?? newId('evt_'),
    sender_id: body.sender_id,
    sender_type: body.sender_type,
    event_type: body.event_type,
    ...(body.message === undefined ? {} : { message: body.message }),
    ...(body.session_id === undefined ? {} : { session_id: body.session_id }),
    ...(body.sender_gateway_url === undefined ? {} : { sender_gateway_url: body.sender_gateway_url }),
    ...(body.metadata === undefined ? {} : { metadata: body.metadata }),
    hops: body.hops ?? [],
  };
}
