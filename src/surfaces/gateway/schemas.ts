import { maxHops, maxMessageCharacters } from '../../gateway/event.ts';
import { Type } from '../shared/schemas/type.ts';

const participantId = Type.String({ minLength: 1, maxLength: 256 });
const url = Type.String({ minLength: 1, maxLength: 2_048 });
// Longer than ours, because that of an event may be another gateway's. It is stored with the participant.
const sessionId = Type.String({ minLength: 1, maxLength: 256 });

/** A gateway event, as submitted and as nested in a delivery. */
export const eventBody = Type.Object(
  {
    id: Type.Optional(
      Type.String({ minLength: 1, maxLength: 200, description: 'An event is processed once per id. Generated if absent.' }),
    ),
    sender_id: participantId,
    sender_type: Type.Enum(['human', 'ai']),
    event_type: Type.String({ minLength: 1, maxLength: 100, description: 'For example `message`.' }),
    message: Type.Optional(Type.String({ maxLength: maxMessageCharacters })),
    session_id: Type.Optional(sessionId),
    sender_gateway_url: Type.Optional(url),
    metadata: Type.Optional(Type.Record(Type.String(), Type.Unknown(), { description: 'At most 50 keys and 16 KiB.' })),
    hops: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 2_048 }), {
        maxItems: maxHops,
        description: 'The gateways that the event has passed.',
      }),
    ),
  },
  {
    title: 'GatewayEvent',
    examples: [{ sender_id: 'ada', sender_type: 'human', event_type: 'message', message: 'Hello', session_id: 'ses_...' }],
  },
);

export const deliveryBody = Type.Object(
  {
    recipient_id: participantId,
    event: eventBody,
    session_id: Type.Optional(Type.String({ minLength: 1 })),
    recipient_gateway_url: Type.Optional(url),
  },
  { title: 'GatewayDelivery' },
);

export const done = Type.Object({ status: Type.Literal('ok') }, { title: 'GatewayAnswer' });
