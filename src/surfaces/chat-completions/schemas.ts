import { messageContent } from '../shared/adapters/message-input.ts';
import { Type } from '../shared/schemas/type.ts';

// The bodies of the chat-completions adapter. Other fields that client libraries send are ignored.

export const chatMessage = Type.Object({
  role: Type.Enum(['user', 'assistant', 'system', 'developer', 'tool', 'function']),
  content: Type.Optional(messageContent),
});

export const chatBody = Type.Object(
  {
    messages: Type.Optional(
      Type.Array(chatMessage, { description: 'The last user message is run; in a new session the messages before it are context.' }),
    ),
    model: Type.Optional(Type.Union([Type.String({ maxLength: 256 }), Type.Null()], { description: 'Echoed; does not select the model.' })),
    stream: Type.Optional(Type.Union([Type.Boolean(), Type.Null()])),
    stream_options: Type.Optional(Type.Unknown({ description: 'With `include_usage: false` the stream has no chunk with the usage.' })),
    store: Type.Optional(
      Type.Union([Type.Boolean(), Type.Null()], { description: 'false deletes a session created by this call after the turn.' }),
    ),
    metadata: Type.Optional(
      Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()], {
        description: 'Metadata of a new session; `session_id` continues an existing session, `end_user_id` is the acting user.',
      }),
    ),
  },
  { title: 'ChatCompletionRequest', examples: [{ messages: [{ role: 'user', content: 'Hello!' }] }] },
);

export const chatCompletion = Type.Object(
  {
    id: Type.String(),
    object: Type.Literal('chat.completion'),
    created: Type.Integer(),
    model: Type.String(),
    choices: Type.Array(
      Type.Object({
        index: Type.Integer(),
        message: Type.Object({ role: Type.Literal('assistant'), content: Type.String() }),
        finish_reason: Type.String(),
      }),
    ),
    usage: Type.Object({
      prompt_tokens: Type.Integer(),
      completion_tokens: Type.Integer(),
      total_tokens: Type.Integer(),
      prompt_tokens_details: Type.Optional(
        Type.Object(
          { cached_tokens: Type.Integer() },
          { description: 'Present when the provider read some of the prompt from its cache.' },
        ),
      ),
    }),
  },
  {
    title: 'ChatCompletion',
    examples: [
      {
        id: 'chatcmpl-01M7EP1RA10000D2K7Q9V4B6XW',
        object: 'chat.completion',
        created: 1_794_735_000,
        model: 'assistant',
        choices: [
          {
            index: 0,
            message: { role: 'assistant', content: 'You said: "Hello!". This is turn 1 of our conversation.' },
            finish_reason: 'stop',
          },
        ],
        usage: { prompt_tokens: 36, completion_tokens: 14, total_tokens: 50 },
      },
    ],
  },
);

export const modelObject = Type.Object(
  { id: Type.String(), object: Type.Literal('model'), created: Type.Integer(), owned_by: Type.String() },
  { title: 'Model' },
);

export const modelList = Type.Object({ object: Type.Literal('list'), data: Type.Array(modelObject) }, { title: 'ModelList' });
