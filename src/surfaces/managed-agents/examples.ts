/** Examples in the API reference of the managed surface: a session with one message and its turn. */
const id = 'ses_01M7EP1N6500004M3WED7JW9EZ';
const turn = { session_id: id, turn_id: 'turn_01M7EP1RA10000D2K7Q9V4B6XW' };

export const sessionExample = { id, object: 'session', status: 'idle' };

export const stateExample = {
  ...sessionExample,
  events: [
    {
      seq: 1,
      type: 'user.message',
      created_at: '2026-11-15T09:30:00.120+00:00',
      ...turn,
      message_id: 'msg_01M7EP1RA20000QX6C3T5M8YVN',
      text: 'Hello!',
    },
    { seq: 2, type: 'session.status_running', created_at: '2026-11-15T09:30:00.120+00:00', ...turn, agent: 'main' },
    {
      seq: 3,
      type: 'agent.message',
      created_at: '2026-11-15T09:30:00.164+00:00',
      ...turn,
      message_id: 'msg_01M7EP1RA20001B7K0WJ2D4HSF',
      agent: 'main',
      text: 'You said: "Hello!". This is turn 1 of our conversation.',
    },
    {
      seq: 4,
      type: 'session.status_idle',
      created_at: '2026-11-15T09:30:00.164+00:00',
      ...turn,
      stop_reason: 'end_turn',
      usage: { input_tokens: 36, output_tokens: 14, total_tokens: 50 },
    },
  ],
};

export const transcriptExample = {
  session_id: id,
  messages: [
    { role: 'user', text: 'Hello!' },
    { role: 'assistant', text: 'You said: "Hello!". This is turn 1 of our conversation.' },
  ],
};
