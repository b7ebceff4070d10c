import { sql } from 'kysely';
import type { Db } from '../database/database.ts';
import type { ApprovalRequested } from './events.ts';

export interface WaitingApproval {
  sessionId: string;
  agent: string;
  endUserId: string | null;
  request: ApprovalRequested;
  createdAt: Date;
}

/** Pending approvals in all sessions of the organization, the oldest first. */
export async function listWaitingApprovals(db: Db, orgId: number, limit: number): Promise<WaitingApproval[]> {
  const { rows } = await sql<WaitingApproval>`
    select p.session_id as "sessionId", a.slug as agent, s.end_user_id as "endUserId", p.request, p.created_at as "createdAt"
    from approvals p join sessions s on s.id = p.session_id join agents a on a.id = s.agent_id
    where p.org_id = ${orgId} and p.state = 'pending' order by p.created_at limit ${limit}`.execute(db);
  return rows;
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
