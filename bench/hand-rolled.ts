// For comparison, what a team might write instead of using Parley: Fastify, the AI SDK's streamText and PostgreSQL. It stores
// messages and streams text; it has no queue, no recovery, no approvals, no budgets and no replay.
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { streamText } from 'ai';
import fastify from 'fastify';
import pg from 'pg';
import { listen } from './listen.ts';

const [databaseUrl = '', upstream = ''] = process.argv.slice(2);
const pool = new pg.Pool({ connectionString: databaseUrl, max: 10 });
await pool.query('create schema if not exists hand_rolled');
await pool.query('create table if not exists hand_rolled.sessions (id text primary key, updated_at timestamptz not null default now())');
await pool.query(
  'create table if not exists hand_rolled.messages (id bigserial primary key, session_id text not null, role text not null, content text not null)',
);
await pool.query('create index if not exists messages_of_session on hand_rolled.messages (session_id, id)');

const model = createOpenAICompatible({ name: 'bench', baseURL: upstream, includeUsage: true })('bench');
const server = fastify();

server.post<{ Params: { id: string }; Body: { text: string } }>('/sessions/:id/messages', async (request, reply) => {
  const { id } = request.params;
  const { text } = request.body;
  await pool.query('insert into hand_rolled.sessions (id) values ($1) on conflict (id) do update set updated_at = now()', [id]);
  await pool.query('insert into hand_rolled.messages (session_id, role, content) values ($1, $2, $3)', [id, 'user', text]);
  const { rows } = await pool.query('select role, content from hand_rolled.messages where session_id = $1 order by id desc limit 20', [id]);
  const result = streamText({ model, messages: rows.reverse() });
  reply.hijack();
  reply.raw.writeHead(200, { 'content-type': 'text/event-stream' });
  let answer = '';
  for await (const piece of result.textStream) {
    answer += piece;
    reply.raw.write(
      `event: text\ndata: ${JSON.stringify({ type: 'text', session_id: id, data: { part: { type: 'text', text: piece } } })}\n\n`,
    );
  }
  await pool.query('insert into hand_rolled.messages (session_id, role, content) values ($1, $2, $3)', [id, 'assistant', answer]);
  reply.raw.end(`event: done\ndata: ${JSON.stringify({ type: 'done', data: { usage: await result.usage } })}\n\n`);
});

await server.ready();
listen(server.server);
