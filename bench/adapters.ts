// What a turn costs over chat completions and over responses, compared with the native API, on the same server and in existing sessions.
import { measure, table } from './measure.ts';
import { call, createSessions, type Engine, headers, type Parley } from './parley.ts';

const text = '/words 64';
const base = '/demo/assistant/v1';

/** One table for unary and one for streamed turns. The ratios are to the first row, the native API. */
export async function adapterTables({ name: engine, parley, pids }: Engine, clients: number, seconds: number): Promise<string[]> {
  const tables: string[] = [];
  for (const stream of [false, true]) {
    const surfaces = await prepare(parley, clients, stream);
    const contenders = surfaces.map(({ name, paths, bodies }) => ({
      name,
      plan: { url: parley.url, headers, seconds, clients, paths, body: '', bodies },
      pids,
    }));
    const title = `${stream ? 'Streamed' : 'Unary'} turn on each wire of ${engine}, offline model, ${clients} clients`;
    tables.push(table(title, await measure(contenders)));
  }
  return tables;
}

/** Each client of each API sends all its turns to one session of its own. */
async function prepare(parley: Parley, clients: number, stream: boolean): Promise<{ name: string; paths: string[]; bodies: string[] }[]> {
  const sessions = await createSessions(parley, clients * 2);
  const responses: string[] = [];
  for (let index = 0; index < clients; index += 1)
    responses.push((await call<{ id: string }>(parley, `${base}/responses`, { input: text })).id);
  return [
    {
      name: 'native',
      paths: sessions.slice(0, clients).map((id) => `${base}/sessions/${id}/messages`),
      bodies: responses.map(() => JSON.stringify({ text, stream })),
    },
    {
      name: 'chat completions',
      paths: responses.map(() => `${base}/chat/completions`),
      bodies: sessions
        .slice(clients)
        .map((id) => JSON.stringify({ messages: [{ role: 'user', content: text }], stream, metadata: { session_id: id } })),
    },
    {
      name: 'responses',
      paths: responses.map(() => `${base}/responses`),
      bodies: responses.map((id) => JSON.stringify({ input: text, stream, previous_response_id: id })),
    },
  ];
}
