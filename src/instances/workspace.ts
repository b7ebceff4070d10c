import { randomUUID } from 'node:crypto';
import { type RawBuilder, sql } from 'kysely';
import type { Db } from '../database/database.ts';
import type { FileChange, Workspace } from '../harness/tool.ts';
import type { Instance } from './instance-key.ts';

/** Changes with more bytes than this are stored ahead of the operation that makes them: all turns of the process wait while it is written. */
const maxBytesInOperation = 1024 * 1024;

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

/**
 * Deletes the files of deleted agents, which nobody can reach, in small steps that do not hold up the turns of their org for long: each
 * takes at most `batch` files, and ends with the one that reaches `bytes`.
 */
export async function dropFilesOfDeletedAgents(
  db: Db,
  { batch = 100, bytes = 16 * 1024 * 1024, signal }: { batch?: number; bytes?: number; signal?: AbortSignal } = {},
): Promise<void> {
  const { rows: agents } = await sql<{ id: number; orgId: number }>`
    select id, org_id as "orgId" from agents a where deleted_at is not null
      and exists (select 1 from workspace_files f where f.org_id = a.org_id and f.agent_id = a.id)`.execute(db);
  for (const { id, orgId } of agents) {
    const some = sql`ctid in (select ctid from (
      select ctid, sum(size) over (rows unbounded preceding) - size as before from (
        select ctid, size from workspace_files where org_id = ${orgId} and agent_id = ${id} limit ${batch}) f) f where before < ${bytes})`;
    let deleted = 1;
    while (deleted > 0 && !signal?.aborted)
      deleted = await db.transaction().execute((transaction) => deleteFiles(transaction, orgId, some));
  }
}

/** Deletes what was stored ahead for an operation that was never carried out, because its turn was interrupted or its process died. */
export async function dropFilesStoredAhead(db: Db, signal?: AbortSignal): Promise<void> {
  let deleted = 1n;
  while (deleted > 0n && !signal?.aborted) {
    const { numAffectedRows = 0n } = await sql`delete from workspace_files where ctid in (
      select ctid from workspace_files where instance_key like 'ahead:%' and updated_at < now() - interval '1 hour' limit 10)`.execute(db);
    deleted = numAffectedRows;
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

/** The files of an instance. Changes are written through the log, together with the tool result that made them. */
export function workspaceOf(db: Db, instance: Instance): Workspace {
  const files = db.selectFrom('workspace_files').where(ofInstance(instance));
  return {
    async list() {
      const rows = await files.select(['path', 'size', 'updated_at']).orderBy('path').execute();
      return rows.map((row) => ({ path: row.path, size: row.size, updatedAt: row.updated_at }));
    },
    async read(path) {
      // As base64: the embedded engine takes 15 times as long to return bytes.
      const content = sql<string>`encode(content, 'base64')`.as('content');
      const row = await files.select(content).where('path', '=', path).executeTakeFirst();
      return row === undefined ? undefined : Buffer.from(row.content, 'base64');
    },
    async storeAhead(changes) {
      const written = changes.filter((change) => 'content' in change);
      const bytes = written.reduce((sum, { content }) => sum + content.length, 0);
      if (bytes <= maxBytesInOperation) return changes;
      const name = randomUUID();
      for (const some of inParts(written)) await insertAhead(db, instance, name, some);
      return changes.map((change) => ('content' in change ? { path: change.path, size: change.content.length, ahead: name } : change));
    },
  };
}

type Written = Extract<FileChange, { content: Uint8Array }>;

/** In parts of a megabyte at most, unless one change alone has more. */
function* inParts(changes: readonly Written[]): Generator<Written[]> {
  let part: Written[] = [];
  let bytes = 0;
  for (const change of changes) {
    if (part.length > 0 && bytes + change.content.length > maxBytesInOperation) {
      yield part;
      part = [];
      bytes = 0;
    }
    part.push(change);
    bytes += change.content.length;
  }
  if (part.length > 0) yield part;
}

/** Under an instance of their own, which no session has, and without a size, so that they are not counted until they are in their place. */
async function insertAhead(db: Db, { orgId, agentId }: Instance, name: string, changes: readonly Written[]): Promise<void> {
  const rows = changes.map(({ path, content }) => ({
    org_id: orgId,
    agent_id: agentId,
    instance_key: `ahead:${name}`,
    path,
    content: fromBase64(content),
    size: 0,
  }));
  await db.insertInto('workspace_files').values(rows).execute();
}

/** The embedded engine takes 8 times as long for a parameter of bytes. */
export function fromBase64({ buffer, byteOffset, byteLength }: Uint8Array): RawBuilder<Uint8Array> {
  return sql<Uint8Array>`decode(${Buffer.from(buffer, byteOffset, byteLength).toString('base64')}, 'base64')`;
}
