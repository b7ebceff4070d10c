import type { Selectable } from 'kysely';
import { type Database, isDatabaseFailure, type PreparedStatement } from '../database/database.ts';
import type { Schema } from '../database/schema.ts';
import { errorCode } from '../errors.ts';
import { Batches } from '../work/batches.ts';
import { type NewSession, type Session, sessionFrom } from './sessions.ts';

/**
 * Writes sessions, counts them for their agents, and sends `session.started`. All sessions of an agent share the row of the count, so
 * it is locked for this statement only. Sessions and agents are each locked in the order of their ids, so that two processes cannot
 * deadlock.
 * The result names its columns: `*` would include those that a newer version adds, and a prepared statement whose result changes fails.
 */
const insertSessions: PreparedStatement = {
  name: 'insert-sessions',
  text: `
    with given as (
      select * from json_to_recordset($1::json) as given (
        id text, org_id integer, agent_id integer, release_version integer, surface text, metadata json, end_user_id text,
        is_visitor boolean, instance_key text, permission_mode text, current_agent text, stored boolean)
    ), fresh as (
      insert into sessions (id, org_id, agent_id, release_version, surface, metadata, end_user_id, is_visitor, instance_key, permission_mode,
        current_agent, stored)
      select id, org_id, agent_id, release_version, surface, metadata, end_user_id, is_visitor, instance_key, permission_mode, current_agent, stored
      from given order by id
      on conflict (id) do nothing
      returning *
    ), locked as materialized (
      select id from agents where id in (select agent_id from given) order by id for no key update
    ), counted as (
      update agents set session_count = session_count + (select count(*) from fresh where agent_id = locked.id)
      from locked where agents.id = locked.id
    ), told as materialized (
      select emit_webhook(fresh.org_id, 'session.started', json_build_object(
        'session_id', fresh.id, 'agent', agents.slug, 'end_user_id', fresh.end_user_id))
      from fresh join agents on agents.id = fresh.agent_id
    )
    select id, org_id, agent_id, release_version, surface, status, metadata, end_user_id, is_visitor, instance_key, permission_mode, current_agent,
      parent_id, participants, pending_input, active_turn_id, queued_turns, staged_files, stored, last_seq, message_count, last_message_at,
      created_at, updated_at
    from fresh
    -- Always true: PostgreSQL does not run a CTE that only selects unless something reads it.
    where (select count(*) from told) >= 0`,
  writes: true,
};

/** No more than of operations of turns, for the same reason; see log.ts. */
const maxBatch = 64;

interface Waiting {
  row: Record<string, unknown>;
  resolve(session: Session | undefined): void;
  reject(error: unknown): void;
}

/** Creates sessions; those requested at the same moment are written in one statement. */
export class NewSessions {
  private readonly database: Database;
  private readonly batches = new Batches<Waiting>(maxBatch, (batch) =>
    this.write(batch).catch((error: unknown) => this.writeApart(batch, error)),
  );

  constructor(database: Database) {
    this.database = database;
  }

  /** Undefined when the id is taken. */
  insert(session: NewSession): Promise<Session | undefined> {
    return new Promise((resolve, reject) => {
      this.batches.add({ row: rowOf(session), resolve, reject });
    });
  }

  private async write(batch: readonly Waiting[]): Promise<void> {
    const rows = await this.database.prepared<Selectable<Schema['sessions']>>(insertSessions, [
      JSON.stringify(batch.map(({ row }) => row)),
    ]);
    const created = new Map(rows.map((row) => [row.id, row]));
    const tell = () => {
      for (const { row, resolve } of batch) {
        const session = created.get(String(row.id));
        // Of two requests for the same id, the first gets it.
        created.delete(String(row.id));
        resolve(session === undefined ? undefined : sessionFrom(session));
      }
    };
    // As in the log, after the next statement has been sent.
    setImmediate(tell);
  }

  /** When the content of one session made the statement fail, or a conflict, each is written alone, so that only that one fails. */
  private async writeApart(batch: readonly Waiting[], error: unknown): Promise<void> {
    const isConflict = errorCode(error)?.startsWith('40') ?? false;
    if (batch.length === 1 || (isDatabaseFailure(error) && !isConflict)) for (const { reject } of batch) reject(error);
    else for (const entry of batch) await this.write([entry]).catch(entry.reject);
  }
}

function rowOf(session: NewSession): Record<string, unknown> {
  return {
    id: session.id,
    org_id: session.orgId,
    agent_id: session.agentId,
    release_version: session.releaseVersion,
    surface: session.surface,
    metadata: session.metadata,
    end_user_id: session.endUserId,
    is_visitor: session.isVisitor,
    instance_key: session.instanceKey,
    permission_mode: session.permissionMode,
    current_agent: session.currentAgent,
    stored: session.stored,
  };
}
