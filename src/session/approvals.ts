import { sql } from 'kysely';
import type { Db } from '../database/database.ts';
import type { ApprovalRequested } from './events.ts';
import { type Session, sessionFrom } from './sessions.ts';
import { grantKey } from './state.ts';

export interface WaitingApproval {
  sessionId: string;
  agent: string;
  endUserId: string | null;
  request: ApprovalRequested;
  createdAt: Date;
}

/** Where a page ends: 200 commands of 190 kB made 38 MB, which every browser with the page open reads again every two seconds. */
const pageCharacters = 2 ** 20;

/** Pending approvals in all sessions of the organization, the oldest first, fewer than `limit` where they are long. */
export async function listWaitingApprovals(
  db: Db,
  orgId: number,
  limit: number,
): Promise<{ approvals: WaitingApproval[]; hasMore: boolean }> {
  const { rows } = await sql<WaitingApproval & { found: number }>`
    select p.session_id as "sessionId", a.slug as agent, s.end_user_id as "endUserId", p.request, p.created_at as "createdAt", p.found
    from (
      select *, count(*) over ()::integer as found, sum(length) over (order by created_at, request_id) - length as length_before from (
        select *, length(request::text) as length from approvals
        where org_id = ${orgId} and state = 'pending' order by created_at limit ${limit + 1}) as oldest
    ) p join sessions s on s.id = p.session_id join agents a on a.id = s.agent_id
    where p.length_before < ${pageCharacters} order by p.created_at, p.request_id limit ${limit}`.execute(db);
  return { approvals: rows, hasMore: (rows[0]?.found ?? 0) > rows.length };
}

/** Counts no further than a thousand. */
export async function countWaitingApprovals(db: Db, orgId: number): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::integer as count from (
      select 1 from approvals where org_id = ${orgId} and state = 'pending' limit 1000
    ) waiting`.execute(db);
  return rows[0]?.count ?? 0;
}

/** Sessions with a pending approval whose agent, this one or any, was deleted, so that nobody can answer it. */
export async function listAbandonedSessions(db: Db, agentId: number | undefined): Promise<{ id: string; orgId: number }[]> {
  const ofAgent = agentId === undefined ? sql`` : sql`and a.id = ${agentId}`;
  const { rows } = await sql<{ id: string; orgId: number }>`
    select s.id, s.org_id as "orgId" from sessions s join agents a on a.id = s.agent_id
    where s.pending_input is not null and a.deleted_at is not null ${ofAgent}`.execute(db);
  return rows;
}

/** The session in which an approval was asked for. */
export async function findSessionOfApproval(db: Db, orgId: number, requestId: string): Promise<Session | undefined> {
  const row = await db
    .selectFrom('sessions')
    .innerJoin('approvals', 'approvals.session_id', 'sessions.id')
    .selectAll('sessions')
    .where('approvals.request_id', '=', requestId)
    .where('sessions.org_id', '=', orgId)
    .executeTakeFirst();
  return row === undefined ? undefined : sessionFrom(row);
}

/** How an approval was answered; undefined while it was not. */
export async function findDecision(db: Db, orgId: number, requestId: string): Promise<string | undefined> {
  const row = await db
    .selectFrom('approvals')
    .select('decision')
    .where('request_id', '=', requestId)
    .where('org_id', '=', orgId)
    .executeTakeFirst();
  return row?.decision ?? undefined;
}

/** What was approved for the whole session, as `foldSession` would find it, without reading the whole log. */
export async function readGrants(db: Db, sessionId: string): Promise<Set<string>> {
  const rows = await db
    .selectFrom('approvals')
    .select('request')
    .where('session_id', '=', sessionId)
    .where('decision', '=', 'approve_session')
    .execute();
  return new Set(rows.map(({ request }) => grantKey(request.tool, request.pattern)));
}
