import { maxTextCharacters } from '../shared/schemas/message-text.ts';
import { Type } from '../shared/schemas/type.ts';
import * as examples from './examples.ts';

// The bodies of the managed surface.

export const createBody = Type.Object(
  {
    metadata: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), { description: 'Key/value pairs of the client; at most 50 keys and 16 KiB.' }),
    ),
    prewarm: Type.Optional(Type.Boolean({ default: true, description: 'Warm the session in the background.' })),
    permission_mode: Type.Optional(
      Type.Union([Type.Literal('interactive'), Type.Literal('autonomous'), Type.Literal('locked'), Type.Null()], {
        description: "How often turns ask for approval; null uses the release's mode. Ignored with a session token.",
      }),
    ),
  },
  { title: 'CreateManagedSession', examples: [{ metadata: { end_user_id: 'visitor_7f3a' }, prewarm: true }] },
);

export const eventBody = Type.Object(
  {
    type: Type.Union([Type.Literal('user.message'), Type.Literal('user.tool_confirmation'), Type.Literal('user.interrupt')]),
    text: Type.Optional(Type.String({ maxLength: maxTextCharacters, description: 'Text of a user.message.' })),
    tool_use_id: Type.Optional(Type.String()),
    request_id: Type.Optional(Type.String({ description: 'The approval that a user.tool_confirmation answers.' })),
    result: Type.Optional(
      Type.Union([Type.Literal('approve_once'), Type.Literal('approve_session'), Type.Literal('deny'), Type.Literal('allow')], {
        description: '`allow` is an alias of `approve_once`.',
      }),
    ),
  },
  { title: 'PostEvent', examples: [{ type: 'user.message', text: 'Hello' }] },
);

export const fileBody = Type.Object(
  {
    name: Type.String({ description: 'The original file name; its basename is kept.' }),
    content_base64: Type.String({ description: 'At most 10 MiB once decoded.' }),
  },
  { title: 'StageUpload', examples: [{ name: 'notes.txt', content_base64: 'aGVsbG8=' }] },
);

export const mcpBody = Type.Object(
  {
    method: Type.String({ description: 'tools/list, tools/call, resources/list, resources/read, prompts/list or prompts/get' }),
    params: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), { description: '`server` names the server if the release has several.' }),
    ),
  },
  { title: 'McpRequest', examples: [{ method: 'tools/list', params: {} }] },
);

export const streamQuery = Type.Object({
  after: Type.Optional(Type.Integer({ minimum: 0, description: 'Resume after this seq; from the start if absent.' })),
  until: Type.Optional(Type.Literal('idle', { description: 'Close the stream after the next terminal event.' })),
  deltas: Type.Optional(Type.Boolean({ default: false, description: 'Also send agent.message_delta frames, which are never logged.' })),
});

export const endUserQuery = Type.Object({
  end_user: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 256,
      description: 'Required for anonymous callers; ignored with a verified token, which uses its subject.',
    }),
  ),
});

const status = Type.Union([Type.Literal('idle'), Type.Literal('running')]);

export const session = Type.Object(
  { id: Type.String(), object: Type.Literal('session'), status },
  { title: 'ManagedSession', examples: [examples.sessionExample] },
);

export const sessionList = Type.Object(
  { object: Type.Literal('list'), data: Type.Array(session) },
  { title: 'ManagedSessionList', examples: [{ object: 'list', data: [examples.sessionExample] }] },
);

export const sessionState = Type.Object(
  {
    id: Type.String(),
    object: Type.Literal('session'),
    status,
    events: Type.Array(Type.Object({ seq: Type.Integer(), type: Type.String() }, { additionalProperties: true })),
  },
  { title: 'ManagedSessionState', examples: [examples.stateExample] },
);

export const transcript = Type.Object(
  { session_id: Type.String(), messages: Type.Array(Type.Object({ role: Type.String(), text: Type.String() })) },
  { title: 'ManagedTranscript', examples: [examples.transcriptExample] },
);

export const accepted = Type.Object({ accepted: Type.Literal(true) }, { title: 'Accepted' });
export const warming = Type.Object({ status: Type.Literal('warming') }, { title: 'Warming' });
export const uploaded = Type.Object(
  { accepted: Type.Literal(true), path: Type.String() },
  { title: 'Uploaded', examples: [{ accepted: true, path: 'uploads/notes.txt' }] },
);
export const eventStream = Type.String({ title: 'EventStream', description: 'Server-Sent Events' });
