import { maxTextCharacters } from '../shared/schemas/message-text.ts';
import { Type } from '../shared/schemas/type.ts';
import * as examples from './examples.ts';

// The bodies of the native surface.

export const sessionBody = Type.Object(
  {
    metadata: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), { description: 'Key/value pairs of the client; at most 50 keys and 16 KiB.' }),
    ),
    session_id: Type.Optional(Type.String({ description: 'Resumes the session with this id, or creates one with it.' })),
    permission_mode: Type.Optional(
      Type.Union([Type.Literal('interactive'), Type.Literal('autonomous'), Type.Literal('locked'), Type.Null()], {
        description: "How often turns ask for approval; null uses the release's mode.",
      }),
    ),
  },
  { title: 'CreateSession', examples: [{ metadata: { end_user_id: 'user_42' } }] },
);

export const messageBody = Type.Object(
  {
    text: Type.String({ maxLength: maxTextCharacters }),
    agent: Type.Optional(Type.String({ description: 'Routes the turn to a named sub-agent.' })),
    participant_name: Type.Optional(Type.String({ minLength: 1, maxLength: 256 })),
    participant_type: Type.Optional(Type.Union([Type.Literal('human'), Type.Literal('ai')])),
    thinking: Type.Optional(Type.Boolean({ default: false })),
    stream: Type.Optional(Type.Boolean({ default: false })),
  },
  { title: 'SendMessage', examples: [{ text: 'Hello!' }] },
);

export const resolveBody = Type.Object(
  { decision: Type.Union([Type.Literal('approve_once'), Type.Literal('approve_session'), Type.Literal('deny')]) },
  { title: 'ResolveApproval', examples: [{ decision: 'approve_once' }] },
);

export const listQuery = Type.Object({
  active: Type.Optional(Type.Boolean({ default: false, description: 'Only sessions that were active in the last 15 minutes.' })),
  page: Type.Optional(Type.Integer({ default: 1, maximum: Number.MAX_SAFE_INTEGER, description: 'Counted from 1.' })),
  per_page: Type.Optional(Type.Integer({ default: 50, description: 'Page size, clamped to 1..200.' })),
});

const pendingInput = Type.Object({
  request_id: Type.String(),
  kind: Type.String(),
  tool: Type.String(),
  message: Type.String(),
  options: Type.Array(Type.String()),
});

export const sessionObject = Type.Object(
  {
    id: Type.String(),
    metadata: Type.Record(Type.String(), Type.Unknown()),
    current_agent: Type.String(),
    status: Type.String(),
    created_at: Type.String(),
    updated_at: Type.String(),
    parent_id: Type.Union([Type.String(), Type.Null()]),
    pending_input: Type.Union([pendingInput, Type.Null()]),
    permission_mode: Type.Union([Type.String(), Type.Null()]),
    participants: Type.Array(Type.Unknown()),
    agent: Type.Optional(Type.Object({ ref: Type.String(), agent_id: Type.Integer(), version: Type.Integer() })),
  },
  { title: 'Session', examples: [examples.sessionExample] },
);

const usage = Type.Object({ input_tokens: Type.Integer(), output_tokens: Type.Integer(), total_tokens: Type.Integer() });

export const messageObject = Type.Object(
  {
    text: Type.String(),
    session_id: Type.String(),
    agent: Type.String(),
    messages: Type.Array(Type.Object({ id: Type.String(), role: Type.String(), text: Type.String(), parts: Type.Array(Type.Unknown()) })),
    usage,
    pending_input: Type.Optional(pendingInput),
    stop_reason: Type.Optional(Type.String({ description: 'Set if the turn did not end normally: interrupted or max_steps.' })),
  },
  { title: 'Message', examples: examples.messageExamples },
);

export const sessionList = Type.Object(
  {
    agent: Type.Object({ ref: Type.String(), agent_id: Type.Integer() }),
    page: Type.Integer(),
    per_page: Type.Integer(),
    total: Type.Integer(),
    sessions: Type.Array(
      Type.Object({
        id: Type.String(),
        status: Type.String(),
        message_count: Type.Integer(),
        last_message_at: Type.Union([Type.String(), Type.Null()]),
        end_user_id: Type.Union([Type.String(), Type.Null()]),
      }),
    ),
  },
  { title: 'SessionList', examples: [examples.sessionListExample] },
);

export const transcript = Type.Object(
  {
    session: Type.Object({ id: Type.String(), status: Type.String() }),
    messages: Type.Array(Type.Object({ role: Type.String(), text: Type.String() })),
  },
  { title: 'Transcript', examples: [examples.transcriptExample] },
);

export const resolution = Type.Object(
  { events: Type.Array(Type.Unknown()), session: sessionObject },
  { title: 'Resolution', examples: [examples.resolutionExample] },
);
