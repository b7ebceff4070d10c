import { sql } from 'kysely';
import type { Db } from '../database/database.ts';

/** What a person wants to know of a session at a glance: who has to do something next, if anyone. */
type Activity = 'running' | 'waiting' | 'idle' | 'stopped';

export interface SessionSearch {
  agentId?: number;
  state?: Activity;
  surface?: string;
  release?: number;
  /** A session's id, or an end user's. */
  text?: string;
  limit: number;
  /** The last session of the page before. */
  after?: { updatedAt: string; id: string };
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

/**
 * Sessions of all of an org's agents, newest activity first. Each agent's newest are read by its index and merged: the cost
 * grows with the page and the number of agents, not with what is stored. A text is looked up as an id or an end user.
 */
export async function searchSessions(db: Db, orgId: number, search: SessionSearch): Promise<FoundSession[]> {
  const conditions = [
    sql`s.org_id = a.org_id`,
    sql`s.agent_id = a.id`,
    ...(search.state === undefined ? [] : [stateCondition(orgId, search.state)]),
    ...(search.surface === undefined ? [] : [sql`s.surface = ${search.surface}`]),
    ...(search.release === undefined ? [] : [sql`s.release_version = ${search.release}`]),
    ...(search.text === undefined ? [] : [sql`(s.id = ${search.text} or s.end_user_id = ${search.text})`]),
    ...(search.after === undefined ? [] : [sql`(s.updated_at, s.id) < (${search.after.updatedAt}::timestamptz, ${search.after.id})`]),
  ];
  const ofAgent = search.agentId === undefined ? sql`true` : sql`a.id = ${search.agentId}`;
  const { rows } = await sql<FoundSession>`
    select ${columns} from agents a cross join lateral (
      select * from sessions s where ${sql.join(conditions, sql` and `)} order by s.updated_at desc, s.id desc limit ${search.limit}
    ) s where a.org_id = ${orgId} and ${ofAgent}
    order by s.updated_at desc, s.id desc limit ${search.limit}`.execute(db);
  return rows;
}

/** One session as the search shows it. */
export async function findSessionRow(db: Db, orgId: number, sessionId: string): Promise<FoundSession | undefined> {
  const { rows } = await sql<FoundSession>`
    select ${columns} from sessions s join agents a on a.id = s.agent_id
    where s.id = ${sessionId} and s.org_id = ${orgId}`.execute(db);
  return rows[0];
}

/** Counting stops here: the cost of the answer must not grow with what is stored. */
const countedAtMost = 100_000;

/** How many sessions of an agent are pinned to each release. */
export async function sessionsPerRelease(db: Db, orgId: number, agentId: number): Promise<Map<number, number>> {
  const { rows } = await sql<{ version: number; sessions: number }>`
    select release_version as version, count(*)::integer as sessions from (
      select release_version from sessions where org_id = ${orgId} and agent_id = ${agentId} limit ${countedAtMost}
    ) pinned group by release_version`.execute(db);
  return new Map(rows.map(({ version, sessions }) => [version, sessions]));
}

const activity = sql`case when s.status = 'stopped' then 'stopped' when s.pending_input is not null then 'waiting'
  when s.active_turn_id is not null then 'running' else 'idle' end`;

const columns = sql`s.id, a.slug as agent, s.release_version as release, s.surface, s.status, ${activity} as state,
  s.end_user_id as "endUserId", s.message_count as "messageCount", s.last_seq as "eventCount",
  s.created_at as "createdAt", s.updated_at as "updatedAt", s.updated_at::text as position`;

/** The other way round of `activity`. What runs is found by its turn: few turns run, and no index tells such a session from its neighbours. */
function stateCondition(orgId: number, wanted: Activity) {
  switch (wanted) {
    case 'running':
      return sql`s.status = 'active' and s.pending_input is null and s.active_turn_id is not null
        and s.id = any(array(select session_id from turns where state in ('running', 'paused') and org_id = ${orgId}))`;
    case 'waiting':
      return sql`s.status = 'active' and s.pending_input is not null`;
    case 'idle':
      return sql`s.status = 'active' and s.active_turn_id is null`;
    case 'stopped':
      return sql`s.status = 'stopped'`;
  }
}
