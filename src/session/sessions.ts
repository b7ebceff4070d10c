import { sql } from 'kysely';
import type { Db } from '../database/database.ts';
import type { Participant, PendingInput } from '../database/schema.ts';
import type { PermissionMode } from '../release-config.ts';

/** The head of a conversation. What it says is kept in its log. */
export interface Session {
  id: string;
  orgId: number;
  agentId: number;
  releaseVersion: number;
  surface: Surface;
  status: 'active' | 'stopped';
  metadata: Record<string, unknown>;
  endUserId: string | undefined;
  /** The end user is a browser's own claim, made with an anonymous token. */
  isVisitor: boolean;
  instanceKey: string;
  permissionMode: PermissionMode | null;
  currentAgent: string;
  parentId: string | null;
  participants: Participant[];
  pendingInput: PendingInput | null;
  isRunning: boolean;
  /** False: its caller asked that nothing be kept; it goes when its turn has ended. */
  stored: boolean;
  lastSeq: number;
  messageCount: number;
  lastMessageAt: Date | null;
  createdAt: Date;
  updatedAt: Date;
}

export type Surface = 'native' | 'managed' | 'chat' | 'responses' | 'gateway';

export type NewSession = Pick<
  Session,
  | 'id'
  | 'orgId'
  | 'agentId'
  | 'releaseVersion'
  | 'surface'
  | 'metadata'
  | 'endUserId'
  | 'isVisitor'
  | 'instanceKey'
  | 'permissionMode'
  | 'currentAgent'
  | 'stored'
>;

/** Only within an org: another's session is as absent as one that never was. */
export async function findSession(db: Db, orgId: number, sessionId: string): Promise<Session | undefined> {
  const row = await db.selectFrom('sessions').selectAll().where('id', '=', sessionId).where('org_id', '=', orgId).executeTakeFirst();
  return row === undefined ? undefined : toSession(row);
}

/** The session of a turn, unless the response that stands for that part of it was deleted. */
export async function findSessionOfResponse(db: Db, orgId: number, turnId: string, responseId: string): Promise<Session | undefined> {
  const row = await db
    .selectFrom('sessions')
    .innerJoin('turns', 'turns.session_id', 'sessions.id')
    .leftJoin('deleted_responses', (join) => join.on('deleted_responses.id', '=', responseId))
    .selectAll('sessions')
    .where('turns.id', '=', turnId)
    .where('sessions.org_id', '=', orgId)
    .where('deleted_responses.id', 'is', null)
    .executeTakeFirst();
  return row === undefined ? undefined : toSession(row);
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
  return row === undefined ? undefined : toSession(row);
}

/** Writes the session, counts it, and reports `session.started`. Undefined when the id is taken. Run it in a transaction. */
export async function insertSession(db: Db, session: NewSession, agentSlug: string): Promise<Session | undefined> {
  const row = await db
    .insertInto('sessions')
    .values({
      id: session.id,
      org_id: session.orgId,
      agent_id: session.agentId,
      release_version: session.releaseVersion,
      surface: session.surface,
      metadata: JSON.stringify(session.metadata),
      end_user_id: session.endUserId ?? null,
      is_visitor: session.isVisitor,
      instance_key: session.instanceKey,
      permission_mode: session.permissionMode,
      current_agent: session.currentAgent,
      stored: session.stored,
    })
    .onConflict((conflict) => conflict.column('id').doNothing())
    .returningAll()
    .executeTakeFirst();
  if (row === undefined) return undefined;
  await db
    .updateTable('agents')
    .set((eb) => ({ session_count: eb('session_count', '+', 1) }))
    .where('id', '=', session.agentId)
    .execute();
  const data = JSON.stringify({ session_id: session.id, agent: agentSlug, end_user_id: session.endUserId ?? null });
  await sql`select emit_webhook(${session.orgId}, 'session.started', ${data}::json)`.execute(db);
  return toSession(row);
}

export async function reactivateSession(db: Db, orgId: number, sessionId: string): Promise<void> {
  await db
    .updateTable('sessions')
    .set({ status: 'active', updated_at: new Date() })
    .where('id', '=', sessionId)
    .where('org_id', '=', orgId)
    .where('status', '=', 'stopped')
    .execute();
}

/** Forgets a conversation and all it said: for callers who asked that it not be stored. */
export async function dropSession(db: Db, orgId: number, sessionId: string): Promise<void> {
  await db.transaction().execute(async (trx) => {
    const gone = await trx
      .deleteFrom('sessions')
      .where('id', '=', sessionId)
      .where('org_id', '=', orgId)
      .returning('agent_id')
      .executeTakeFirst();
    if (gone === undefined) return;
    await trx.deleteFrom('events').where('session_id', '=', sessionId).execute();
    await trx.deleteFrom('turns').where('session_id', '=', sessionId).execute();
    await trx.deleteFrom('approvals').where('session_id', '=', sessionId).execute();
    await trx.deleteFrom('deleted_responses').where('session_id', '=', sessionId).execute();
    await trx
      .updateTable('agents')
      .set((eb) => ({ session_count: eb('session_count', '-', 1) }))
      .where('id', '=', gone.agent_id)
      .execute();
  });
}

/** Drops what a process that died could not: sessions that nobody wanted kept and whose turn is over. */
export async function dropLeftovers(db: Db): Promise<void> {
  const rows = await db
    .selectFrom('sessions')
    .select(['id', 'org_id'])
    .where('stored', '=', false)
    .where('active_turn_id', 'is', null)
    .where('updated_at', '<', new Date(Date.now() - 60_000))
    .execute();
  for (const row of rows) await dropSession(db, row.org_id, row.id);
}

export interface SessionFilter {
  agentId: number;
  endUserId?: string;
  isVisitor?: boolean;
  activeSince?: Date;
}

/** Newest activity first. Reads by index: its cost grows with the page, not with what is stored. */
export async function listSessions(db: Db, orgId: number, filter: SessionFilter, offset: number, limit: number): Promise<Session[]> {
  const rows = await filtered(db, orgId, filter)
    .selectAll()
    .orderBy('updated_at', 'desc')
    .orderBy('id', 'desc')
    .offset(offset)
    .limit(limit)
    .execute();
  return rows.map(toSession);
}

/** Every session that the filter lets through, newest activity first, in pages: its memory is that of a page. */
export async function* listAllSessions(db: Db, orgId: number, filter: SessionFilter, page = 500): AsyncGenerator<Session[]> {
  // As text, because a date is read to the millisecond and stored to the microsecond.
  const position = sql<string>`updated_at::text`.as('position');
  let last: { position: string; id: string } | undefined;
  for (;;) {
    const ended = last;
    let query = filtered(db, orgId, filter).selectAll().select(position).orderBy('updated_at', 'desc').orderBy('id', 'desc').limit(page);
    if (ended !== undefined) query = query.where(sql<boolean>`(updated_at, id) < (${ended.position}::timestamptz, ${ended.id})`);
    const rows = await query.execute();
    if (rows.length > 0) yield rows.map(toSession);
    if (rows.length < page) return;
    last = rows.at(-1);
  }
}

/** The agent's own counter answers for all of its sessions; a filter is counted. */
export async function countSessions(db: Db, orgId: number, filter: SessionFilter): Promise<number> {
  if (filter.activeSince === undefined && filter.endUserId === undefined) {
    const agent = await db
      .selectFrom('agents')
      .select('session_count')
      .where('id', '=', filter.agentId)
      .where('org_id', '=', orgId)
      .executeTakeFirst();
    return agent?.session_count ?? 0;
  }
  const { count } = await filtered(db, orgId, filter)
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow();
  return count;
}

function filtered(db: Db, orgId: number, filter: SessionFilter) {
  let query = db.selectFrom('sessions').where('org_id', '=', orgId).where('agent_id', '=', filter.agentId);
  if (filter.endUserId !== undefined) query = query.where('end_user_id', '=', filter.endUserId);
  if (filter.isVisitor !== undefined) query = query.where('is_visitor', '=', filter.isVisitor);
  if (filter.activeSince !== undefined) query = query.where('updated_at', '>=', filter.activeSince);
  return query;
}

type SessionRow = Awaited<ReturnType<typeof selectRow>>;

function selectRow(db: Db) {
  return db.selectFrom('sessions').selectAll().executeTakeFirstOrThrow();
}

function toSession(row: SessionRow): Session {
  return {
    id: row.id,
    orgId: row.org_id,
    agentId: row.agent_id,
    releaseVersion: row.release_version,
    surface: row.surface as Surface,
    status: row.status,
    metadata: row.metadata,
    endUserId: row.end_user_id ?? undefined,
    isVisitor: row.is_visitor,
    instanceKey: row.instance_key,
    permissionMode: row.permission_mode,
    currentAgent: row.current_agent,
    parentId: row.parent_id,
    participants: row.participants,
    pendingInput: row.pending_input,
    isRunning: row.active_turn_id !== null && row.pending_input === null,
    stored: row.stored,
    lastSeq: row.last_seq,
    messageCount: row.message_count,
    lastMessageAt: row.last_message_at,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}
