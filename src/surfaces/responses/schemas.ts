import { messageContent } from '../shared/adapters/message-input.ts';
import { Type } from '../shared/schemas/type.ts';

// The bodies of the responses adapter. Other fields that client libraries send are ignored.

/** A message, a repeated item of an earlier response, or the answer to an approval request. Other kinds are ignored. */
export const inputItem = Type.Object({
  type: Type.Optional(Type.String()),
  id: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  role: Type.Optional(Type.String()),
  content: Type.Optional(messageContent),
  // Null in a call of an MCP server that needed no approval, which is one of the other kinds.
  approval_request_id: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  approve: Type.Optional(Type.Boolean()),
});

const sessionId = Type.String({ minLength: 1, maxLength: 128 });

export const responseRequest = Type.Object(
  {
    input: Type.Union([Type.String(), Type.Array(inputItem)]),
    model: Type.Optional(Type.Union([Type.String({ maxLength: 256 }), Type.Null()], { description: 'Echoed; does not select the model.' })),
    stream: Type.Optional(Type.Union([Type.Boolean(), Type.Null()])),
    previous_response_id: Type.Optional(
      Type.Union([Type.String(), Type.Null()], { description: 'Continues the session of this response.' }),
    ),
    conversation: Type.Optional(
      Type.Union([sessionId, Type.Object({ id: sessionId }), Type.Null()], { description: 'Continues the session with this id.' }),
    ),
    store: Type.Optional(
      Type.Union([Type.Boolean(), Type.Null()], { description: 'false deletes a session created by this call after the turn.' }),
    ),
    instructions: Type.Optional(
      Type.Unknown({ description: "A string is context for the model, in addition to the release's instructions." }),
    ),
    metadata: Type.Optional(Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()])),
  },
  { title: 'ResponseRequest', examples: [{ input: 'Hello!' }] },
);

const usage = Type.Object({
  input_tokens: Type.Integer(),
  output_tokens: Type.Integer(),
  total_tokens: Type.Integer(),
  input_tokens_details: Type.Object({ cached_tokens: Type.Integer({ description: "Read from the provider's cache." }) }),
  output_tokens_details: Type.Object({ reasoning_tokens: Type.Integer({ description: 'Always 0: not counted apart.' }) }),
});

export const responseObject = Type.Object(
  {
    id: Type.String(),
    object: Type.Literal('response'),
    created_at: Type.Integer(),
    status: Type.String(),
    model: Type.String(),
    output: Type.Array(Type.Unknown()),
    output_text: Type.String(),
    usage: Type.Union([usage, Type.Null()]),
    error: Type.Union([Type.Object({ code: Type.String(), message: Type.String() }), Type.Null()]),
    incomplete_details: Type.Union([Type.Object({ reason: Type.String() }), Type.Null()]),
    tools: Type.Array(Type.Unknown()),
    tool_choice: Type.String(),
    parallel_tool_calls: Type.Boolean(),
    metadata: Type.Record(Type.String(), Type.Unknown()),
    previous_response_id: Type.Optional(Type.String()),
  },
  {
    title: 'Response',
    examples: [
      {
        id: 'resp_01M7EP1RA10000D2K7Q9V4B6XW',
        object: 'response',
        created_at: 1_794_735_000,
        status: 'completed',
        model: 'assistant',
        output: [
          {
            id: 'msg_01M7EP1RA20001B7K0WJ2D4HSF',
            type: 'message',
            status: 'completed',
            role: 'assistant',
            content: [{ type: 'output_text', text: 'You said: "Hello!". This is turn 1 of our conversation.', annotations: [] }],
          },
        ],
        output_text: 'You said: "Hello!". This is turn 1 of our conversation.',
        usage: {
          input_tokens: 36,
          output_tokens: 14,
          total_tokens: 50,
          input_tokens_details: { cached_tokens: 0 },
          output_tokens_details: { reasoning_tokens: 0 },
        },
        error: null,
        incomplete_details: null,
        tools: [],
        tool_choice: 'auto',
        parallel_tool_calls: false,
        metadata: {},
      },
    ],
  },
);

export const deletedResponse = Type.Object(
  { id: Type.String(), object: Type.Literal('response'), deleted: Type.Literal(true) },
  { title: 'DeletedResponse' },
);

export const fetchQuery = Type.Object({
  stream: Type.Optional(Type.Boolean({ default: false, description: 'Replays the stream and continues it while the turn runs.' })),
  starting_after: Type.Optional(Type.Integer({ minimum: 0, description: 'Only events after this `sequence_number`.' })),
});

export const inputItemsQuery = Type.Object({
  order: Type.Optional(
    Type.Union([Type.Literal('asc'), Type.Literal('desc')], { default: 'desc', description: 'desc: the newest first.' }),
  ),
  after: Type.Optional(Type.String({ description: 'The `id` of the last item of the previous page.' })),
  limit: Type.Optional(Type.Integer({ default: 20, description: 'Page size, clamped to 1..100.' })),
});

export const inputItemList = Type.Object(
  {
    object: Type.Literal('list'),
    data: Type.Array(Type.Unknown()),
    first_id: Type.Union([Type.String(), Type.Null()]),
    last_id: Type.Union([Type.String(), Type.Null()]),
    has_more: Type.Boolean(),
  },
  { title: 'InputItemList' },
);
