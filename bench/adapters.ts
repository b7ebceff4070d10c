// The two adapters beside the native surface, on the same server, in sessions that go on: what the other wire costs.
import { compare, measure, type Row, table } from './measure.ts';
import { call, createSessions, headers, type Parley } from './parley.ts';

const text = '/words 64';
const base = '/demo/assistant/v1';
const rounds = 5;

/** A table each for unary and streamed turns; the first row, the native surface, is what the others are compared to. */
export async function adapterTables(parley: Parley, pids: number[], clients: number, seconds: number): Promise<string[]> {
  const tables: string[] = [];
  for (const stream of [false, true]) {
    const rows = await measureSurfaces(parley, pids, clients, seconds, stream);
    tables.push(table(`${stream ? 'Streamed' : 'Unary'} turn on each wire, offline model, ${clients} clients`, compare(rows)));
  }
  return tables;
}

/** In turns, so that whatever else the machine does meets all of them alike; of each the median round counts. */
async function measureSurfaces(parley: Parley, pids: number[], clients: number, seconds: number, stream: boolean): Promise<Row[]> {
  const surfaces = await prepare(parley, clients, stream);
  const measured: Row[][] = surfaces.map(() => []);
  for (let round = 0; round < rounds; round += 1) {
    for (const [index, { name, paths, bodies }] of surfaces.entries()) {
      const plan = { url: parley.url, headers, seconds: seconds / rounds, clients, paths, body: '', bodies };
      measured[index]?.push(await measure(name, plan, pids));
    }
  }
  return measured.flatMap((rows) => rows.toSorted((left, right) => left.cpuPerTurn - right.cpuPerTurn)[rounds >> 1] ?? []);
}

/** Each client of each surface stays in a session of its own. */
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
