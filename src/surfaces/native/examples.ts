/** Examples in the API reference of the native surface: one conversation, from its first message to an approval. */
const created = '2026-11-15T09:30:00.000+00:00';
const updated = '2026-11-15T09:31:12.480+00:00';
const usage = { input_tokens: 36, output_tokens: 14, total_tokens: 50 };
const secondUsage = { input_tokens: 48, output_tokens: 6, total_tokens: 54 };

const pendingInput = {
  request_id: 'req_01M7EP2Q4Z0000T5C1M9W8XK3B',
  kind: 'tool_use',
  tool: 'bash',
  message: 'Run this command?\nls -la',
  options: ['approve_once', 'approve_session', 'deny'],
};

export const sessionExample = {
  id: 'ses_01M7EP1N6500004M3WED7JW9EZ',
  metadata: { end_user_id: 'user_42' },
  current_agent: 'main',
  status: 'active',
  created_at: created,
  updated_at: updated,
  parent_id: null,
  pending_input: null,
  permission_mode: null,
  participants: [],
  agent: { ref: 'demo/assistant', agent_id: 1, version: 1 },
};

const answer = 'You said: "Hello!". This is turn 1 of our conversation.';

export const messageExamples = [
  {
    text: answer,
    session_id: sessionExample.id,
    agent: 'main',
    messages: [
      { id: 'msg_01M7EP1RA20000QX6C3T5M8YVN', role: 'user', text: 'Hello!', parts: [{ type: 'text', text: 'Hello!' }] },
      { id: 'msg_01M7EP1RA20001B7K0WJ2D4HSF', role: 'assistant', text: answer, parts: [{ type: 'text', text: answer }] },
    ],
    usage,
  },
  {
    text: '',
    session_id: sessionExample.id,
    agent: 'main',
    messages: [
      {
        id: 'msg_01M7EP2PZW0000N9G4R7A1E6DT',
        role: 'user',
        text: 'What files are there?',
        parts: [{ type: 'text', text: 'What files are there?' }],
      },
      {
        id: 'msg_01M7EP2PZW0001V3H8S5F2C0KM',
        role: 'assistant',
        text: '',
        parts: [{ type: 'tool_use', id: 'call_01M7EP2Q1R0000Y6Z4P8X3J5LB', tool: 'bash', input: { command: 'ls -la' }, state: 'running' }],
      },
    ],
    usage,
    pending_input: pendingInput,
  },
];

export const sessionListExample = {
  agent: { ref: 'demo/assistant', agent_id: 1 },
  page: 1,
  per_page: 50,
  total: 1,
  sessions: [{ id: sessionExample.id, status: 'active', message_count: 2, last_message_at: updated, end_user_id: 'user_42' }],
};

export const transcriptExample = {
  session: { id: sessionExample.id, status: 'active' },
  messages: [
    { role: 'user', text: 'Hello!' },
    { role: 'assistant', text: answer },
  ],
};

export const resolutionExample = {
  events: [
    {
      type: 'tool_use',
      data: {
        part: {
          type: 'tool_use',
          id: 'call_01M7EP2Q1R0000Y6Z4P8X3J5LB',
          tool: 'bash',
          input: { command: 'ls -la' },
          state: 'completed',
          output: 'total 0',
        },
      },
    },
    { type: 'step_finish', data: { step: 1, finish_reason: 'tool_calls', usage } },
    { type: 'step_start', data: { step: 2, agent: 'main' } },
    { type: 'text', data: { part: { type: 'text', text: 'The workspace is empty.' } } },
    { type: 'step_finish', data: { step: 2, finish_reason: 'stop', usage: secondUsage } },
    { type: 'done', data: { usage: { input_tokens: 84, output_tokens: 20, total_tokens: 104 } } },
  ],
  session: sessionExample,
};
