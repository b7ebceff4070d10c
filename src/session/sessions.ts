import { type Selectable, sql } from 'kysely';
import type { Db } from '../database/database.ts';
import type { Schema, Surface } from '../database/schema.ts';
import { isSessionId } from '../ids.ts';
import { instanceKey } from '../instances/instance-key.ts';
import { dropFilesOf, ofInstance } from '../instances/workspace.ts';
import type { PermissionMode } from '../release-config.ts';
import type { MessageReceived, RequestEcho } from './events.ts';
import type { Feed } from './feed.ts';
import type { Participant } from './participants.ts';
import type { PendingInput } from './pending-input.ts';

/** What a session is created with. Most of it never changes. */
export interface NewSession {
  id: string;
  orgId: number;
  agentId: number;
  releaseVersion: number;
  surface: Surface;
  metadata: Record<string, unknown>;
  endUserId: string | undefined;
  /** The end user is only claimed, by a browser with an anonymous token. */
  isVisitor: boolean;
  instanceKey: string;
  permissionMode: PermissionMode | null;
  currentAgent: string;
  /** False: the client asked that nothing be stored, so the session is deleted when its turn has ended. */
  stored: boolean;
}

/** A row of `sessions`: the head of a conversation. What was said is in its log. */
export interface Session extends NewSession {
  status: 'active' | 'stopped';
  parentId: string | null;
  participants: Participant[];
  pendingInput: PendingInput | null;
  isRunning: boolean;
  lastSeq: number;
  messageCount: number;
  lastMessageAt: Date | null;
  createdAt: Date;
  updatedAt: Date;
}

/** Only within an organization: another one's session does not exist. Text that cannot be an id reaches no query. */
export async function findSession(db: Db, orgId: number, sessionId: string): Promise<Session | undefined> {
  if (!isSessionId(sessionId)) return undefined;
  const row = await db.selectFrom('sessions').selectAll().where('id', '=', sessionId).where('org_id', '=', orgId).executeTakeFirst();
  return row === undefined ? undefined : sessionFrom(row);
}

/** Whether any organization has a session with this id, so that none can be created with it. */
export async function isTakenId(db: Db, sessionId: string): Promise<boolean> {
  if (!isSessionId(sessionId)) return false;
  return (await db.selectFrom('sessions').select('id').where('id', '=', sessionId).executeTakeFirst()) !== undefined;
}

/** The session of a turn, and the fields of its request that the response repeats; undefined if the response was deleted. */
export async function findTurnOfResponse(
  db: Db,
  orgId: number,
  turnId: string,
  responseId: string,
): Promise<{ session: Session; echo: RequestEcho } | undefined> {
  const row = await db
    .selectFrom('sessions')
    .innerJoin('turns', 'turns.session_id', 'sessions.id')
    .leftJoin('deleted_responses', (join) => join.on('deleted_responses.id', '=', responseId))
    .selectAll('sessions')
    .select(sql<RequestEcho | null>`turns.input -> 'echo'`.as('echo'))
    .where('turns.id', '=', turnId)
    .where('sessions.org_id', '=', orgId)
    .where('deleted_responses.id', 'is', null)
    .executeTakeFirst();
  return row === undefined ? undefined : { session: sessionFrom(row), echo: row.echo ?? {} };
}

/** The message of a turn, and its seq; null while it waits for its turn. */
export async function findTurnInput(
  db: Db,
  orgId: number,
  turnId: string,
): Promise<{ input: MessageReceived; firstSeq: number | null } | undefined> {
  const row = await db
    .selectFrom('turns')
    .select(['first_seq', sql<MessageReceived>`input`.as('input')])
    .where('id', '=', turnId)
    .where('org_id', '=', orgId)
    .executeTakeFirst();
  return row === undefined ? undefined : { input: row.input, firstSeq: row.first_seq };
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

export async function reactivateSession(db: Db, orgId: number, sessionId: string): Promise<void> {
  await db
    .updateTable('sessions')
    .set({ status: 'active', updated_at: new Date() })
    .where('id', '=', sessionId)
    .where('org_id', '=', orgId)
    .where('status', '=', 'stopped')
    .execute();
}

/**
 * Deletes a conversation with everything that belongs to it, for clients that asked that it not be stored. False when one of its turns
 * is active, since that one holds a reservation of the budget until its end; or when its log goes on after `lastSeq` with a turn whose
 * answer may still be read. Its turns and approvals are found through its log, since their tables have no index by session.
 */
export async function dropSession(db: Db, orgId: number, sessionId: string, lastSeq?: number): Promise<boolean> {
  return db.transaction().execute((transaction) => dropSessionIn(transaction, orgId, sessionId, lastSeq));
}

/**
 * The same as part of a transaction. All conditions are about the session's own row: if the deletion has to wait for a turn that is being
 * admitted, the database checks them again, which it would not do for other tables.
 */
export async function dropSessionIn(transaction: Db, orgId: number, sessionId: string, lastSeq?: number): Promise<boolean> {
  const { rows } = await sql<{ agent_id: number; participants: Participant[] }>`
    delete from sessions where id = ${sessionId} and org_id = ${orgId} and active_turn_id is null
      and coalesce(last_seq <= ${lastSeq ?? null}::integer, true)
    returning agent_id, participants`.execute(transaction);
  const gone = rows[0];
  if (gone === undefined) return false;
  await sql`delete from turns where id in
    (select turn_id from events where session_id = ${sessionId} and type = 'turn-started')`.execute(transaction);
  await sql`delete from approvals where request_id in
    (select data ->> 'requestId' from events where session_id = ${sessionId} and type = 'approval-requested')`.execute(transaction);
  await transaction.deleteFrom('events').where('session_id', '=', sessionId).execute();
  await transaction.deleteFrom('deleted_responses').where('session_id', '=', sessionId).execute();
  if (gone.participants.length > 0) await transaction.deleteFrom('session_participants').where('session_id', '=', sessionId).execute();
  // If the instance is the session itself, its files and its spending go too.
  const own = { orgId, agentId: gone.agent_id, instanceKey: instanceKey('session', { sessionId, endUserId: undefined }) };
  await dropFilesOf(transaction, own);
  await sql`delete from instance_spend where ${ofInstance(own)}`.execute(transaction);
  await transaction
    .updateTable('agents')
    .set(({ eb }) => ({ session_count: eb('session_count', '-', 1) }))
    .where('id', '=', gone.agent_id)
    .execute();
  return true;
}

/** Deletes sessions that were not to be stored and were left behind because their process died or could not delete them in time. */
export async function dropLeftovers(db: Db, feed: Feed): Promise<void> {
  const rows = await db
    .selectFrom('sessions')
    .select(['id', 'org_id', 'last_seq'])
    .where('stored', '=', false)
    .where('active_turn_id', 'is', null)
    .where('updated_at', '<', sql<Date>`now() - interval '1 minute'`)
    .execute();
  for (const row of rows) if (await dropSession(db, row.org_id, row.id, row.last_seq)) feed.drop(row.id);
}

export function sessionFrom(row: Selectable<Schema['sessions']>): Session {
  return {
    id: row.id,
    orgId: row.org_id,
    agentId: row.agent_id,
    releaseVersion: row.release_version,
    surface: row.surface,
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
