export interface SampleInput {
  origin: string;
  org: string;
  agent: string;
  text: string;
}

/** Code that sends the message in the composer to this agent, for three clients. `text` may be empty. */
export function codeSamples({ origin, org, agent, text }: SampleInput): { name: string; code: string }[] {
  const base = `${origin}/${org}/${agent}/v1`;
  const message = text === '' ? 'Hello!' : text;
  // For a shell string in single quotes.
  const shellJson = (value: unknown) => JSON.stringify(value).replaceAll("'", "'\\''");
  return [
    {
      name: 'curl',
      code: `# Open a session, send a message into it, and watch what happens.
SESSION=$(curl -s -X POST ${base}/managed-agents/sessions \\
  -H "Authorization: Bearer $PARLEY_API_KEY" -H "Content-Type: application/json" -d '{}' \\
  | sed 's/.*"id":"\\([^"]*\\)".*/\\1/')

curl -s -X POST ${base}/managed-agents/sessions/$SESSION/events \\
  -H "Authorization: Bearer $PARLEY_API_KEY" -H "Content-Type: application/json" \\
  -d '${shellJson({ type: 'user.message', text: message })}'

curl -sN "${base}/managed-agents/sessions/$SESSION/events/stream?until=idle" \\
  -H "Authorization: Bearer $PARLEY_API_KEY"
`,
    },
    {
      name: '@parley/client',
      code: `import { ParleyClient } from '@parley/client';

const parley = new ParleyClient({
  baseUrl: ${JSON.stringify(origin)},
  apiKey: process.env.PARLEY_API_KEY,
  agent: ${JSON.stringify(`${org}/${agent}`)},
});

const session = await parley.sessions.create();
for await (const event of parley.messages.stream(session.id, { text: ${JSON.stringify(message)} })) {
  if (event.type === 'text') process.stdout.write(event.data.part.text);
}
`,
    },
    {
      name: 'openai',
      code: `import OpenAI from 'openai';

const client = new OpenAI({ baseURL: ${JSON.stringify(base)}, apiKey: process.env.PARLEY_API_KEY });

const stream = await client.chat.completions.create({
  model: ${JSON.stringify(agent)},
  messages: [{ role: 'user', content: ${JSON.stringify(message)} }],
  stream: true,
});
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta?.content ?? '');
`,
    },
  ];
}
