import { type Selectable, sql } from 'kysely';
import type { Db } from '../database/database.ts';
import type { Schema, Surface } from '../database/schema.ts';
import { isSessionId } from '../ids.ts';
import type { PermissionMode } from '../release-config.ts';
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

export async function reactivateSession(db: Db, orgId: number, sessionId: string): Promise<void> {
  await db
    .updateTable('sessions')
    .set({ status: 'active', updated_at: sql<Date>`now()` })
    .where('id', '=', sessionId)
    .where('org_id', '=', orgId)
    .where('status', '=', 'stopped')
    .execute();
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
