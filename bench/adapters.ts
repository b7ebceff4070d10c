// The two adapters beside the native surface, on the same server, in sessions that go on: what the other wire costs.
import { compare, measure, type Row, table } from './measure.ts';
import { call, createSessions, headers, type Parley } from './parley.ts';

const text = '/words 64';
const base = '/demo/assistant/v1';

/** A table each for unary and streamed turns; the first row, the native surface, is what the others are compared to. */
export async function adapterTables(parley: Parley, pids: number[], clients: number, seconds: number): Promise<string[]> {
  const tables: string[] = [];
  for (const stream of [false, true]) {
    const rows = await measureSurfaces(parley, pids, clients, seconds, stream);
    tables.push(table(`${stream ? 'Streamed' : 'Unary'} turn on each wire, offline model, ${clients} clients`, compare(rows)));
  }
  return tables;
}

async function measureSurfaces(parley: Parley, pids: number[], clients: number, seconds: number, stream: boolean): Promise<Row[]> {
  const run = (name: string, paths: string[], bodies: unknown[]) =>
    measure(name, { url: parley.url, headers, seconds, paths, body: '', bodies: bodies.map((body) => JSON.stringify(body)) }, pids);
  const sessions = await createSessions(parley, clients * 2);
  const native = sessions.slice(0, clients);
  const chat = sessions.slice(clients);
  const responses: string[] = [];
  for (let index = 0; index < clients; index += 1) {
    const { id } = await call<{ id: string }>(parley, `${base}/responses`, { input: text });
    responses.push(id);
  }
  return [
    await run(
      'native',
      native.map((id) => `${base}/sessions/${id}/messages`),
      native.map(() => ({ text, stream })),
    ),
    await run(
      'chat completions',
      chat.map(() => `${base}/chat/completions`),
      chat.map((id) => ({ messages: [{ role: 'user', content: text }], stream, metadata: { session_id: id } })),
    ),
    await run(
      'responses',
      responses.map(() => `${base}/responses`),
      responses.map((id) => ({ input: text, stream, previous_response_id: id })),
    ),
  ];
}
