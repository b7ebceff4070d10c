import { timestamp, timestampOrNull } from '../../clock.ts';
import type { Delivery } from '../../outbox/deliveries.ts';
import type { WebhookEndpoint } from '../../outbox/endpoints.ts';
import { Type } from '../shared/schemas/type.ts';

const textOrNull = Type.Union([Type.String(), Type.Null()]);
const types = Type.Array(Type.String(), { maxItems: 100, description: 'Subscribed event types; an empty list means all of them.' });
const url = Type.String({
  minLength: 1,
  maxLength: 2_048,
  description: 'An HTTPS URL on the public internet; checked again before every attempt.',
});
const name = Type.String({ minLength: 1, maxLength: 200 });

export const endpointObject = Type.Object(
  {
    id: Type.Integer(),
    name: Type.String(),
    url: Type.String(),
    event_types: Type.Array(Type.String()),
    enabled: Type.Boolean(),
    disabled_reason: textOrNull,
    consecutive_failures: Type.Integer({ description: 'Counted failures since the last success.' }),
    previous_secret_expires_at: textOrNull,
    created_at: Type.String(),
    updated_at: Type.String(),
  },
  {
    title: 'WebhookEndpoint',
    examples: [
      {
        id: 1,
        name: 'Production',
        url: 'https://example.com/hooks/parley',
        event_types: ['turn.completed', 'turn.failed'],
        enabled: true,
        disabled_reason: null,
        consecutive_failures: 0,
        previous_secret_expires_at: null,
        created_at: '2026-11-15T09:30:00.000+00:00',
        updated_at: '2026-11-15T09:30:00.000+00:00',
      },
    ],
  },
);

export const createBody = Type.Object(
  { name, url, event_types: Type.Optional(types) },
  {
    title: 'CreateWebhookEndpoint',
    additionalProperties: false,
    examples: [{ name: 'Production', url: 'https://example.com/hooks/parley', event_types: ['turn.completed', 'turn.failed'] }],
  },
);

export const updateBody = Type.Object(
  { name: Type.Optional(name), url: Type.Optional(url), event_types: Type.Optional(types) },
  { title: 'UpdateWebhookEndpoint', additionalProperties: false, examples: [{ event_types: [] }] },
);

export const testBody = Type.Object(
  { event_type: Type.Optional(Type.String({ description: 'Default: the first type that the endpoint is subscribed to.' })) },
  { title: 'TestWebhookEndpoint', additionalProperties: false },
);

export const recoverBody = Type.Object(
  {
    from: Type.String({ description: 'ISO 8601 time, inclusive; in UTC unless it has an offset.' }),
    to: Type.Optional(Type.String({ description: 'Likewise; default: now.' })),
  },
  {
    title: 'RecoverWebhookEndpoint',
    additionalProperties: false,
    examples: [{ from: '2026-11-01T00:00:00Z', to: '2026-11-02T00:00:00Z' }],
  },
);

const attempt = Type.Object({
  number: Type.Integer(),
  manual: Type.Boolean({ description: 'A test or resend, outside the retry schedule.' }),
  started_at: Type.String(),
  duration_ms: Type.Integer(),
  status: Type.Union([Type.Integer(), Type.Null()], { description: 'HTTP status; null if there was no response.' }),
  error: textOrNull,
  response_excerpt: Type.String(),
});

export const deliveryObject = Type.Object(
  {
    id: Type.String({ description: "Same as the payload's `id` and the header `Svc-Event-Id`." }),
    endpoint_id: Type.Integer(),
    event_type: Type.String(),
    test: Type.Boolean(),
    state: Type.Enum(['pending', 'delivered', 'failed']),
    payload: Type.Unknown(),
    next_attempt_at: textOrNull,
    created_at: Type.String(),
    delivered_at: textOrNull,
    attempts: Type.Array(attempt),
  },
  { title: 'WebhookDelivery' },
);

export function showEndpoint(endpoint: WebhookEndpoint) {
  return {
    id: endpoint.id,
    name: endpoint.name,
    url: endpoint.url,
    event_types: endpoint.eventTypes,
    enabled: endpoint.enabled,
    disabled_reason: endpoint.disabledReason ?? null,
    consecutive_failures: endpoint.consecutiveFailures,
    previous_secret_expires_at: timestampOrNull(endpoint.previousSecretUntil),
    created_at: timestamp(endpoint.createdAt),
    updated_at: timestamp(endpoint.updatedAt),
  };
}

export function showDelivery(delivery: Delivery) {
  return {
    id: delivery.id,
    endpoint_id: delivery.endpointId,
    event_type: delivery.eventType,
    test: delivery.isTest,
    state: delivery.state,
    payload: JSON.parse(delivery.body),
    next_attempt_at: timestampOrNull(delivery.nextAttemptAt),
    created_at: timestamp(delivery.createdAt),
    delivered_at: timestampOrNull(delivery.deliveredAt),
    attempts: delivery.attempts.map((made) => ({
      number: made.number,
      manual: made.manual,
      started_at: timestamp(made.startedAt),
      duration_ms: made.durationMs,
      status: made.status ?? null,
      error: made.error ?? null,
      response_excerpt: made.excerpt,
    })),
  };
}

/** The same without the message of a failed turn, in which a provider may quote the conversation. */
export function showWithoutMessage(delivery: Delivery) {
  const shown = showDelivery(delivery);
  if (delivery.eventType !== 'turn.failed') return shown;
  return { ...shown, payload: JSON.parse(delivery.body, (key, value) => (key === 'message' ? null : value)) };
}
