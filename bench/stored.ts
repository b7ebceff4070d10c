// `node bench/stored.ts [sessions]`: how much slower lists, searches, reads and turns are with a million stored sessions than with a thousand.
import { percentile } from '../test/support/flood.ts';
import { type PostgresServer, startPostgres } from '../test/support/postgres-server.ts';
import { createDatabase, runStatements } from './databases.ts';
import { headers, type Parley, startParley } from './parley.ts';

const few = 1_000;
/** The requests are about the first 900 sessions: both databases have them, and none is stopped, running or paused (see `seed`). */
const requestedSessions = 900;
const rounds = 120;
const base = '/demo/assistant/v1';

interface Request {
  name: string;
  method?: string;
  path(number: number): string;
  body?: string;
}

/** `path` takes the number of a session. */
const requests: Request[] = [
  { name: 'list, first page', path: () => `${base}/sessions` },
  { name: 'list, page 5', path: () => `${base}/sessions?page=5&per_page=20` },
  { name: 'list, active', path: () => `${base}/sessions?active=true` },
  { name: "list, an end user's", path: (number) => `${base}/managed-agents/sessions?end_user=user-${number % 100}` },
  { name: 'search, all agents', path: () => '/dashboard/api/sessions' },
  { name: 'search, one agent', path: () => '/dashboard/api/sessions?agent=assistant' },
  { name: 'search, an end user', path: (number) => `/dashboard/api/sessions?q=user-${number % 100}` },
  { name: 'search, a session', path: (number) => `/dashboard/api/sessions?q=${idOf(number)}` },
  { name: 'search, nothing found', path: () => '/dashboard/api/sessions?q=nobody' },
  ...['idle', 'running', 'waiting', 'stopped'].map((state) => ({
    name: `search, ${state}`,
    path: () => `/dashboard/api/sessions?state=${state}`,
  })),
  { name: 'search, a surface that half have', path: () => '/dashboard/api/sessions?surface=native' },
  { name: 'search, a release that all have', path: () => '/dashboard/api/sessions?release=1' },
  { name: 'search, a surface that 40 have, the oldest', path: () => '/dashboard/api/sessions?surface=gateway' },
  { name: 'search, a surface that nothing has', path: () => '/dashboard/api/sessions?surface=responses' },
  { name: 'search, a release that nothing has', path: () => '/dashboard/api/sessions?release=2' },
  { name: 'sessions of each release', path: () => '/dashboard/api/agents/assistant/pins' },
  { name: 'approvals', path: () => '/dashboard/api/approvals' },
  { name: 'fetch', path: (number) => `/v1/sessions/${idOf(number)}` },
  { name: 'fetch, managed', path: (number) => `${base}/managed-agents/sessions/${idOf(number)}` },
  { name: 'transcript', path: (number) => `${base}/sessions/${idOf(number)}/messages` },
  { name: 'create', method: 'POST', path: () => '/v1/sessions', body: '{"metadata":{"end_user_id":"user-1"}}' },
  { name: 'turn', method: 'POST', path: (number) => `/v1/sessions/${idOf(number)}/messages`, body: '{"text":"/words 8"}' },
];

if (import.meta.main) {
  const postgres = await startPostgres();
  process.stdout.write(await measureStored(postgres, Number(process.argv[2] ?? '1000000')));
  await postgres.stop();
}

/** Sends requests alternately to two servers, with a database each, so that other activity on the machine affects both alike. */
export async function measureStored(postgres: PostgresServer, many: number): Promise<string> {
  const begun = performance.now();
  const [small, large] = [await startStored(postgres.url, few), await startStored(postgres.url, many)];
  const seconds = Math.round((performance.now() - begun) / 1000);
  const lines = [
    `## ${many.toLocaleString('en')} sessions stored against ${few.toLocaleString('en')}, on PostgreSQL`,
    '',
    `p50 of ${rounds} requests each, one at a time, to both in turns (stored in ${seconds} s).`,
    '',
    '| what | ms with few | ms with many | ratio |',
    '|---|---|---|---|',
  ];
  for (const request of requests) {
    const times: [number[], number[]] = [[], []];
    for (let round = -20; round < rounds; round += 1) {
      // The order alternates too, so that it is not always the same one that finds the caches as the other left them.
      const order = round % 2 === 0 ? [small, large] : [large, small];
      for (const parley of order) {
        const time = await timeOf(parley, request, round + 20);
        if (round >= 0) times[parley === small ? 0 : 1].push(time);
      }
    }
    const [withFew, withMany] = [percentile(times[0], 0.5), percentile(times[1], 0.5)];
    lines.push(`| ${request.name} | ${withFew.toFixed(2)} | ${withMany.toFixed(2)} | ${(withMany / withFew).toFixed(2)} |`);
  }
  await small.stop();
  await large.stop();
  return `${lines.join('\n')}\n`;
}

async function timeOf(parley: Parley, { method = 'GET', path, body }: Request, round: number): Promise<number> {
  const url = parley.url + path((round * 7) % requestedSessions);
  const begun = performance.now();
  const response = await fetch(url, { method, headers, ...(body === undefined ? {} : { body }) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${url}: ${response.status} ${text}`);
  return performance.now() - begun;
}

async function startStored(serverUrl: string, count: number): Promise<Parley> {
  const url = await createDatabase(serverUrl, `stored_${count}`);
  const parley = await startParley(url);
  await runStatements(url, seed(count));
  return parley;
}

/**
 * A session every half minute up to now. The 40 oldest, which are the slowest to find, came over a surface of their own, and some of them are
 * stopped, running or paused.
 */
function seed(count: number): string[] {
  const id = `'ses_stored' || lpad(n::text, 10, '0')`;
  const at = `now() - interval '30 seconds' * n`;
  const oldest = `n >= ${count - 40}`;
  return [
    `insert into sessions (id, org_id, agent_id, release_version, surface, status, metadata, end_user_id, instance_key, current_agent, pending_input,
      active_turn_id, last_seq, message_count, last_message_at, created_at, updated_at)
    select ${id}, a.org_id, a.id, 1, case when ${oldest} then 'gateway' when n % 2 = 0 then 'native' else 'managed' end,
      case when ${oldest} and n % 4 = 2 then 'stopped' else 'active' end, '{"plan":"pro","source":"web"}',
      -- Every end user has ten sessions; those of the first thousand sessions are called user-0 to user-99.
      case when n < ${few} then 'user-' || n % 100 else 'other-' || n / 10 end, 'user:' || n % 100, 'main',
      case when ${oldest} and n % 8 = 3 then json_build_object('request_id', 'req_' || n, 'kind', 'tool_use', 'tool', 'bash', 'message', 'May I?', 'options', '[]'::json) end,
      case when ${oldest} and n % 4 = 3 then 'turn_' || n end, 4, 2, ${at}, ${at}, ${at}
    from generate_series(0, ${count - 1}) n, agents a`,
    `insert into turns (id, org_id, agent_id, session_id, state, input, process_id, lease_until, created_at)
    select 'turn_' || n, a.org_id, a.id, ${id}, case when n % 8 = 3 then 'paused' else 'running' end, '{}', 'elsewhere', now() + interval '1 day', now()
    from generate_series(${count - 40}, ${count - 1}) n, agents a where n % 4 = 3`,
    // A conversation for each of the first thousand sessions, and for one in ten of the others.
    `insert into events (org_id, session_id, seq, turn_id, type, data, created_at)
    select a.org_id, ${id}, e.seq, 'turn_stored' || n, e.type, e.data, ${at}
    from generate_series(0, ${count - 1}) n, agents a, (values
      (1, 'message-received', '{"messageId":"msg_a","text":"Hello, who are you?"}'::json),
      (2, 'turn-started', '{"agent":"main"}'::json),
      (3, 'message-produced', '{"messageId":"msg_b","text":"An assistant that was stored a while ago.","step":1,"agent":"main"}'::json),
      (4, 'turn-ended', '{"stopReason":"end_turn","usage":{"input":10,"output":10,"cachedInput":0},"step":1,"stepUsage":{"input":10,"output":10,"cachedInput":0}}'::json)) e (seq, type, data)
    where n < ${few} or n % 10 = 0`,
    'update agents set session_count = (select count(*) from sessions)',
    'vacuum analyze',
  ];
}

function idOf(number: number): string {
  return `ses_stored${String(number).padStart(10, '0')}`;
}
