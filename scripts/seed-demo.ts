// Fills the demo organization with conversations, to see how lists behave when there are many: node scripts/seed-demo.ts [sessions] [turns].
// The embedded database has one process at a time: stop the server first.
import { sql } from 'kysely';
import { loadConfig } from '../src/config.ts';
import type { Database } from '../src/database/database.ts';
import { migrate } from '../src/database/migrate.ts';
import { openDatabase } from '../src/database/open.ts';
import { errorMessage } from '../src/errors.ts';

export interface DemoSize {
  sessions: number;
  /** Turns in each session; a turn is four events. */
  turns: number;
  /** Number of events in the additional session `ses_demo_long`; with 0 there is none. */
  longEvents: number;
}

/** The rows are generated in SQL: a million events take about half a minute. Safe to run twice. */
export async function seedDemo(database: Database, organization: string, size: DemoSize): Promise<void> {
  const { db } = database;
  const { sessions, turns } = size;
  const { rows } = await sql<{ org: number; agent: number }>`
    select o.id as org, a.id as agent from organizations o join agents a on a.org_id = o.id
    where o.slug = ${organization} and a.deleted_at is null order by a.id limit 1`.execute(db);
  const place = rows[0];
  if (place === undefined) throw new Error(`There is no organization ${organization} with an agent: start the server once.`);
  await sql`create temporary table demo_sessions as
    select 'ses_demo_' || lpad(n::text, 7, '0') as id, n, ${turns}::integer as turns,
      now() - (n * interval '47 seconds') - (n % 7) * interval '1 second' as ended_at
    from generate_series(1, ${sessions}::integer) n`.execute(db);
  if (size.longEvents > 0)
    await sql`insert into demo_sessions values ('ses_demo_long', 0, ${Math.ceil(size.longEvents / 4)}, now())`.execute(db);
  await insertSessions(database, place.org, place.agent);
  await insertEvents(database, place.org);
  await insertTurns(database, place.org, place.agent);
  await insertUsage(database, place.org, place.agent);
  await sql`update agents set session_count = (select count(*) from sessions s where s.agent_id = agents.id) where id = ${place.agent}`.execute(
    db,
  );
  await sql`drop table demo_sessions`.execute(db);
  await sql`analyze sessions, events, turns`.execute(db);
}

async function insertSessions({ db }: Database, org: number, agent: number): Promise<void> {
  await sql`insert into sessions (id, org_id, agent_id, release_version, surface, status, metadata, end_user_id, instance_key, current_agent,
      last_seq, message_count, last_message_at, created_at, updated_at)
    select id, ${org}, ${agent}, 1, (array['native', 'managed', 'chat', 'responses'])[1 + n % 4],
      case when n % 23 = 22 then 'stopped' else 'active' end, json_build_object('plan', (array['free', 'team', 'business'])[1 + n % 3]),
      'user_' || (n * 7919 % 997), 'user_' || (n * 7919 % 997), 'main', turns * 4, turns * 2, ended_at,
      ended_at - turns * interval '40 seconds', ended_at
    from demo_sessions on conflict do nothing`.execute(db);
}

const usage = sql`json_build_object('input', 180 + n % 90, 'output', 40 + n % 50, 'cachedInput', 0)`;

/** The four events of each turn: the message, the start, the answer and the end; every fortieth turn fails. */
async function insertEvents({ db }: Database, org: number): Promise<void> {
  await sql`insert into events (org_id, session_id, seq, turn_id, type, data, created_at)
    select ${org}, id, t * 4 + part, 'turn_demo_' || id || '_' || t,
      case part when 1 then 'message-received' when 2 then 'turn-started' when 3 then 'message-produced'
        else case when (n + t) % 40 = 39 then 'turn-failed' else 'turn-ended' end end,
      case part
        when 1 then json_build_object('messageId', 'msg_demo_' || id || '_' || t,
          'text', (array['Where is my order?', 'Can I change the address?', 'How do I cancel?', 'Thank you!'])[1 + (n + t) % 4])
        when 2 then json_build_object('agent', 'main')
        when 3 then json_build_object('messageId', 'msg_demo_a_' || id || '_' || t, 'step', 1, 'agent', 'main',
          'text', (array['It left the warehouse **yesterday** and should arrive tomorrow.', 'Yes: tell me the new one and I will change it.',
            'Open *Settings*, then *Plan*, and choose *Cancel*.', 'You are welcome.'])[1 + (n + t) % 4])
        else case when (n + t) % 40 = 39
          then json_build_object('code', 'overloaded', 'message', 'The provider is overloaded.', 'usage', ${usage})
          else json_build_object('stopReason', 'end_turn', 'usage', ${usage}, 'step', 1, 'stepUsage', ${usage}) end
      end,
      ended_at - (turns - 1 - t) * interval '40 seconds' - (4 - part) * (300 + (n * 37 + t * 11) % 900) * interval '1 millisecond'
    from demo_sessions cross join lateral generate_series(0, turns - 1) t cross join generate_series(1, 4) part
    on conflict do nothing`.execute(db);
}

async function insertTurns({ db }: Database, org: number, agent: number): Promise<void> {
  await sql`insert into turns (id, org_id, agent_id, session_id, state, input, end_user_id, first_seq, last_seq, created_at, ended_at)
    select 'turn_demo_' || id || '_' || t, ${org}, ${agent}, id, 'ended', '{}', 'user_' || (n * 7919 % 997), t * 4 + 1, t * 4 + 4,
      ended_at - (turns - 1 - t) * interval '40 seconds' - 3 * (300 + (n * 37 + t * 11) % 900) * interval '1 millisecond',
      ended_at - (turns - 1 - t) * interval '40 seconds'
    from demo_sessions cross join lateral generate_series(0, turns - 1) t on conflict do nothing`.execute(db);
}

async function insertUsage({ db }: Database, org: number, agent: number): Promise<void> {
  await sql`insert into usage_daily (org_id, day, agent_id, model, end_user_id, turns, input_tokens, output_tokens, cached_tokens, cost_micros)
    select ${org}, (now() at time zone 'utc')::date - day, ${agent}, model, 'user_' || visitor, 3 + (day * 7 + visitor) % 11,
      (900 + (day * 131 + visitor * 57) % 1500) * weight, (300 + (day * 61 + visitor * 23) % 600) * weight, 0, (1200 + day * 40) * weight
    from generate_series(0, 29) day, generate_series(1, 6) visitor,
      (values ('offline/demo', 1), ('anthropic/claude-sonnet-4-5', 3), ('openai/gpt-5-mini', 2)) as models (model, weight)
    on conflict do nothing`.execute(db);
  await sql`update budgets set spent_micros = greatest(spent_micros, 4210000), tokens_used = greatest(tokens_used, 812000) where org_id = ${org}`.execute(
    db,
  );
}

if (process.argv[1] === import.meta.filename) {
  try {
    await using opened = new AsyncDisposableStack();
    const database = await openDatabase(loadConfig());
    opened.defer(() => database.close());
    await migrate(database);
    await seedDemo(database, 'demo', {
      sessions: Number(process.argv[2] ?? 10_000),
      turns: Number(process.argv[3] ?? 25),
      longEvents: 5_000,
    });
  } catch (error) {
    process.stderr.write(`seed-demo: ${errorMessage(error)}\n`);
    process.exitCode = 1;
  }
}
