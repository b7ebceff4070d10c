import { type RawBuilder, sql } from 'kysely';
import type { Db } from '../database/database.ts';
import type { Instance } from './instance-key.ts';

/** Adds to the count of bytes in the files of an org, or takes from it, in the transaction that writes or deletes them. */
export async function countFileBytes(transaction: Db, orgId: number, growth: number): Promise<void> {
  if (growth !== 0)
    await sql`update budgets set file_bytes = greatest(0, file_bytes + ${growth}::bigint) where org_id = ${orgId}`.execute(transaction);
}

/** Locks the organization's count. Everyone who writes or deletes files does this before they lock a file, so that no two wait for each other. */
export async function lockFileBytes(transaction: Db, orgId: number): Promise<void> {
  await sql`select 1 from budgets where org_id = ${orgId} for update`.execute(transaction);
}

/** Deletes the files of an instance that no session can have any more. */
export async function dropFilesOf(transaction: Db, instance: Instance): Promise<void> {
  const { rows } = await sql`select 1 from workspace_files where ${ofInstance(instance)} limit 1`.execute(transaction);
  if (rows.length > 0) await deleteFiles(transaction, instance.orgId, ofInstance(instance));
}

/** Deletes the files of deleted agents, which nobody can reach, in small steps that do not hold up the turns of their org for long. */
export async function dropFilesOfDeletedAgents(
  db: Db,
  { batch = 100, signal }: { batch?: number; signal?: AbortSignal } = {},
): Promise<void> {
  const { rows: agents } = await sql<{ id: number; orgId: number }>`
    select id, org_id as "orgId" from agents a where deleted_at is not null
      and exists (select 1 from workspace_files f where f.org_id = a.org_id and f.agent_id = a.id)`.execute(db);
  for (const { id, orgId } of agents) {
    const some = sql`ctid in (select ctid from workspace_files where org_id = ${orgId} and agent_id = ${id} limit ${batch})`;
    let deleted = batch;
    while (deleted === batch && !signal?.aborted)
      deleted = await db.transaction().execute((transaction) => deleteFiles(transaction, orgId, some));
  }
}

async function deleteFiles(transaction: Db, orgId: number, condition: RawBuilder<unknown>): Promise<number> {
  await lockFileBytes(transaction, orgId);
  const { rows } = await sql<{ size: number }>`delete from workspace_files where ${condition} returning size`.execute(transaction);
  await countFileBytes(transaction, orgId, -rows.reduce((sum, { size }) => sum + size, 0));
  return rows.length;
}

export function ofInstance({ orgId, agentId, instanceKey }: Instance): RawBuilder<boolean> {
  return sql<boolean>`org_id = ${orgId} and agent_id = ${agentId} and instance_key = ${instanceKey}`;
}

/** The files of an instance, to read. Changes are written through the log, together with the tool result that made them. */
export function workspaceOf(db: Db, instance: Instance) {
  const files = db.selectFrom('workspace_files').where(ofInstance(instance));
  return {
    async list(): Promise<{ path: string; size: number; updatedAt: Date }[]> {
      const rows = await files.select(['path', 'size', 'updated_at']).orderBy('path').execute();
      return rows.map((row) => ({ path: row.path, size: row.size, updatedAt: row.updated_at }));
    },
    async read(path: string): Promise<Uint8Array | undefined> {
      // As base64: the embedded engine takes 15 times as long to return bytes.
      const content = sql<string>`encode(content, 'base64')`.as('content');
      const row = await files.select(content).where('path', '=', path).executeTakeFirst();
      return row === undefined ? undefined : Buffer.from(row.content, 'base64');
    },
  };
}
