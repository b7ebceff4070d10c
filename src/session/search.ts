import { sql } from 'kysely';
import type { Db } from '../database/database.ts';

/** The state of a session as a person sees it. `waiting`: for an approval. `failed`: the last thing that happened is that a turn failed. */
type Activity = 'running' | 'waiting' | 'failed' | 'idle' | 'stopped';

export interface SessionSearch {
  agentId?: number | undefined;
  state?: Activity | undefined;
  surface?: string | undefined;
  release?: number | undefined;
  /** A session's id, or an end user's. */
  text?: string | undefined;
  limit: number;
  /** The last session of the previous page. */
  after?: { updatedAt: string; id: string } | undefined;
  /** How many sessions are scanned at most for what no index finds, such as whether the last turn failed. */
  maxScanned?: number;
}

export interface FoundPage {
  sessions: FoundSession[];
  /** Sessions older than this one were not scanned: the next page begins after it. Undefined: all were. */
  horizon: { position: string; id: string } | undefined;
}

export interface FoundSession {
  id: string;
  agent: string;
  release: number;
  surface: string;
  status: 'active' | 'stopped';
  state: Activity;
  endUserId: string | null;
  messageCount: number;
  eventCount: number;
  createdAt: Date;
  updatedAt: Date;
  /** The time of its last change with every digit that the database keeps; a cursor needs them. */
  position: string;
}

/** Sessions scanned for one page: about 10 ms, where a million took 0.2 s. What is rare takes several pages. */
const defaultMaxScanned = 25_000;
/** Where the last event of each has to be looked up, which takes about five times as long. */
const maxLookedUp = 5_000;
/** The part of those that is scanned first: what is common fills its page there, in a quarter of the time. */
const firstPart = 1 / 25;

/**
 * Sessions of all of an org's agents, newest activity first. The newest of each agent, or of each of its groups with one release and
 * surface, are read by an index and merged: the cost grows with the page and the number of these, not with what is stored. A text is
 * looked up as an id or an end user.
 */
export async function searchSessions(db: Db, orgId: number, search: SessionSearch): Promise<FoundPage> {
  const { limit, maxScanned = needsLookup(search) ? maxLookedUp : defaultMaxScanned } = search;
  if (scannedConditions(orgId, search).length === 0) return readPage(db, orgId, search, undefined);
  const page = await readPage(db, orgId, search, await findHorizon(db, orgId, search, maxScanned * firstPart));
  if (page.sessions.length === limit || page.horizon === undefined) return page;
  return readPage(db, orgId, search, await findHorizon(db, orgId, search, maxScanned));
}

async function readPage(db: Db, orgId: number, search: SessionSearch, horizon: FoundPage['horizon']): Promise<FoundPage> {
  const { limit } = search;
  const conditions = [
    ...indexedConditions(orgId, search),
    ...scannedConditions(orgId, search),
    ...(horizon === undefined ? [] : [sql`(s.updated_at, s.id) >= (${horizon.position}::timestamptz, ${horizon.id})`]),
  ];
  const { rows } = await sql<FoundSession>`
    select ${columns} from ${sources(orgId, search)} cross join lateral (
      select * from sessions s where ${sql.join(conditions, sql` and `)} order by s.updated_at desc, s.id desc limit ${limit}
    ) s
    order by s.updated_at desc, s.id desc limit ${limit}`.execute(db);
  return { sessions: rows, horizon };
}

/** How far back a scan of this many sessions goes: to where the first of its sources has used up its equal share of them. */
async function findHorizon(db: Db, orgId: number, search: SessionSearch, maxScanned: number): Promise<FoundPage['horizon']> {
  const counted = await sql<{ count: number }>`select count(*)::integer as count from ${sources(orgId, search)}`.execute(db);
  const share = Math.ceil(maxScanned / Math.max(1, counted.rows[0]?.count ?? 1));
  const { rows } = await sql<{ position: string; id: string }>`
    select s.updated_at::text as position, s.id from ${sources(orgId, search)} cross join lateral (
      select s.updated_at, s.id from sessions s where ${sql.join(indexedConditions(orgId, search), sql` and `)}
      order by s.updated_at desc, s.id desc offset ${share - 1} limit 1
    ) s
    order by s.updated_at desc, s.id desc limit 1`.execute(db);
  return rows[0];
}

/** Whose sessions are read one after another, as `a` and, for a group, `g`: those of agents that have none that match are not. */
function sources(orgId: number, search: SessionSearch) {
  const { agentId, surface, release } = search;
  const agent = agentId === undefined ? sql`org_id = ${orgId}` : sql`org_id = ${orgId} and id = ${agentId}`;
  const agents = sql`(select id, org_id, slug from agents where ${agent}) a`;
  if (surface === undefined && release === undefined) return agents;
  const groups = sql`(
    select agent_id, surface, release_version from session_counts where sessions > 0
      and ${surface === undefined ? sql`true` : sql`surface = ${surface}`}
      and ${release === undefined ? sql`true` : sql`release_version = ${release}`}
  ) g`;
  if (isFoundByGroup(search)) return sql`${agents} join ${groups} on g.agent_id = a.id`;
  return sql`(select * from ${agents} where exists (select 1 from ${groups} where g.agent_id = a.id)) a`;
}

function indexedConditions(orgId: number, search: SessionSearch) {
  const { state, text, after } = search;
  return [
    sql`s.org_id = a.org_id`,
    sql`s.agent_id = a.id`,
    ...(isFoundByGroup(search) ? [sql`s.surface = g.surface`, sql`s.release_version = g.release_version`] : []),
    ...(state === undefined || needsLookup(search) ? [] : [stateCondition(orgId, state)]),
    ...(text === undefined ? [] : [sql`(s.id = ${text} or s.end_user_id = ${text})`]),
    ...(after === undefined ? [] : [sql`(s.updated_at, s.id) < (${after.updatedAt}::timestamptz, ${after.id})`]),
  ];
}

function scannedConditions(orgId: number, search: SessionSearch) {
  const { state, surface, release } = search;
  if (state !== undefined && needsLookup(search)) return [stateCondition(orgId, state)];
  if (isFoundByGroup(search)) return [];
  return [
    ...(surface === undefined ? [] : [sql`s.surface = ${surface}`]),
    ...(release === undefined ? [] : [sql`s.release_version = ${release}`]),
  ];
}

/** Sessions that are running, waiting or stopped are found by that instead: most of the time they are few. */
function isFoundByGroup({ state, surface, release }: SessionSearch): boolean {
  return (surface !== undefined || release !== undefined) && (state === undefined || needsLookup({ state }));
}

/** Whether sessions at rest are to be told apart by how their last turn ended. */
function needsLookup({ state }: Pick<SessionSearch, 'state'>): boolean {
  return state === 'failed' || state === 'idle';
}

/** One session, as the search shows it. */
export async function findSessionRow(db: Db, orgId: number, sessionId: string): Promise<FoundSession | undefined> {
  const { rows } = await sql<FoundSession>`
    select ${columns} from sessions s join agents a on a.id = s.agent_id
    where s.id = ${sessionId} and s.org_id = ${orgId}`.execute(db);
  return rows[0];
}

/** How many of an agent's sessions are pinned to each release. */
export async function sessionsPerRelease(db: Db, orgId: number, agentId: number): Promise<{ version: number; sessions: number }[]> {
  const { rows } = await sql<{ version: number; sessions: number }>`
    select c.release_version as version, sum(c.sessions)::integer as sessions from agents a join session_counts c on c.agent_id = a.id
    where a.org_id = ${orgId} and a.id = ${agentId} and c.sessions > 0 group by c.release_version`.execute(db);
  return rows;
}

/** Looks up one event by its key. As an `exists`, the planner reads all events instead: 90 ms for 60,000 sessions. */
const lastTurnFailed = sql`coalesce((select e.type from events e where e.session_id = s.id and e.seq = s.last_seq) = 'turn-failed', false)`;

const activity = sql`case when s.status = 'stopped' then 'stopped' when s.pending_input is not null then 'waiting'
  when s.active_turn_id is not null then 'running' when ${lastTurnFailed} then 'failed' else 'idle' end`;

const columns = sql`s.id, a.slug as agent, s.release_version as release, s.surface, s.status, ${activity} as state,
  s.end_user_id as "endUserId", s.message_count as "messageCount", s.last_seq as "eventCount",
  s.created_at as "createdAt", s.updated_at as "updatedAt", s.updated_at::text as position`;

/** `activity` as a condition. Running sessions are found by their turns, which are few: no index of sessions would find them. */
function stateCondition(orgId: number, wanted: Activity) {
  switch (wanted) {
    case 'running':
      return sql`s.status = 'active' and s.pending_input is null and s.active_turn_id is not null
        and s.id = any(array(select session_id from turns where state in ('running', 'paused') and org_id = ${orgId}))`;
    case 'waiting':
      return sql`s.status = 'active' and s.pending_input is not null`;
    case 'failed':
    case 'idle':
      return sql`s.status = 'active' and s.active_turn_id is null and ${lastTurnFailed} = ${wanted === 'failed'}`;
    case 'stopped':
      return sql`s.status = 'stopped'`;
  }
}
