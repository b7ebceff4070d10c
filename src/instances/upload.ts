import { sql } from 'kysely';
import { type Db, isDatabaseFailure } from '../database/database.ts';
import { locks } from '../database/locks.ts';
import { notFound, ServiceError } from '../errors.ts';
import { workspaceLimits } from '../workspace-limits.ts';
import type { Instance } from './instance-key.ts';
import { countFileBytes, fromBase64, lockFileBytes, ofInstance } from './workspace.ts';

const directory = 'uploads';
const { fileBytes, totalBytes, files } = workspaceLimits;

interface File {
  name: string;
  content: Uint8Array;
}

/**
 * The uploads of this process, those of an organization one after the other: they wait for each other in the database anyway, and each
 * would hold a connection meanwhile, until none was left.
 */
export class Uploads {
  private readonly db: Db;
  private readonly maxBytes: number | undefined;
  /** The newest upload of each organization that has one under way. */
  private readonly newest = new Map<number, Promise<unknown>>();

  constructor(db: Db, maxBytes: number | undefined) {
    this.db = db;
    this.maxBytes = maxBytes;
  }

  /** See `stageUpload`. */
  async stage(orgId: number, sessionId: string, file: File): Promise<string | undefined> {
    const staged = this.stageAfter(this.newest.get(orgId), orgId, sessionId, file);
    this.newest.set(orgId, staged);
    try {
      return await staged;
    } finally {
      if (this.newest.get(orgId) === staged) this.newest.delete(orgId);
    }
  }

  private async stageAfter(
    earlier: Promise<unknown> | undefined,
    orgId: number,
    sessionId: string,
    file: File,
  ): Promise<string | undefined> {
    await earlier?.catch((error: unknown) => {
      // While the database does not answer, each would wait for it anew, and the last of them for minutes.
      if (isDatabaseFailure(error)) throw error;
    });
    return stageUpload(this.db, orgId, sessionId, file, this.maxBytes);
  }
}

/**
 * Writes an upload into the workspace of the session and lists it for the next turn, in one transaction. Returns its path, or
 * undefined when the org has no such session. A file of the same name is replaced. `maxBytes` limits the files of the org together.
 *
 * Turns write three of these rows too: the session's, the count of the org's bytes, and the file's. They are locked last, and in this
 * order: the turns of all organizations are written in one batch, which would wait for the locks while another upload is waited for and
 * the content is written.
 */
export async function stageUpload(
  db: Db,
  orgId: number,
  sessionId: string,
  { name, content }: File,
  maxBytes?: number,
): Promise<string | undefined> {
  const path = uploadPath(name);
  if (content.length > fileBytes) throw new ServiceError('too-large', `A file may have ${fileBytes} bytes`);
  return db.transaction().execute(async (transaction) => {
    const session = await transaction
      .selectFrom('sessions')
      .select(['agent_id', 'instance_key'])
      .where('org_id', '=', orgId)
      .where('id', '=', sessionId)
      .executeTakeFirst();
    if (session === undefined) return undefined;
    const instance = { orgId, agentId: session.agent_id, instanceKey: session.instance_key };
    await lockUploads(transaction, instance);
    await assertRoomBeside(transaction, instance, path, content.length);
    await assertRoomInOrg(transaction, instance, path, content.length, maxBytes);
    await writeContent(transaction, instance, content);
    await stage(transaction, sessionId, path);
    await lockFileBytes(transaction, orgId);
    const growth = await assertRoomInOrg(transaction, instance, path, content.length, maxBytes);
    await countFileBytes(transaction, orgId, growth);
    await putInPlace(transaction, instance, path);
    return path;
  });
}

/** One upload per instance at a time, until the commit: otherwise two would each check the limits without counting the other. */
async function lockUploads(transaction: Db, { orgId, agentId, instanceKey }: Instance): Promise<void> {
  await sql`select pg_advisory_xact_lock(${locks.workspace}, hashtext(${`${orgId} ${agentId} ${instanceKey}`}))`.execute(transaction);
}

/** Checks the limits, and that no file and directory would share a path: the shell would see only the file. */
async function assertRoomBeside(transaction: Db, instance: Instance, path: string, bytes: number): Promise<void> {
  const { rows } = await sql<{ count: number; bytes: number; below: boolean | null; above: boolean | null }>`
    select count(*)::float8 as count, coalesce(sum(size), 0)::float8 as bytes,
      bool_or(starts_with(path, ${`${path}/`})) as below, bool_or(path = ${directory}) as above
    from workspace_files where ${ofInstance(instance)} and path <> ${path}`.execute(transaction);
  const others = rows[0] ?? { count: 0, bytes: 0, below: null, above: null };
  if (others.below) throw new ServiceError('conflict', `${path} is a directory in the workspace`);
  if (others.above) throw new ServiceError('conflict', `${directory} is a file in the workspace, not a directory`);
  if (others.count >= files) throw new ServiceError('too-large', `A workspace may have ${files} files`);
  if (others.bytes + bytes > totalBytes) throw new ServiceError('too-large', `A workspace may have ${totalBytes} bytes`);
}

/**
 * By how much the upload changes the bytes of the org's files. Throws when they would exceed the limit. Asked twice: before the content
 * is written, so that no refused upload costs much, and again with the count locked, which decides.
 */
async function assertRoomInOrg(transaction: Db, instance: Instance, path: string, bytes: number, maxBytes?: number): Promise<number> {
  const { rows } = await sql<{ bytes: number; replaced: number }>`
    select file_bytes::float8 as bytes, coalesce((select size from workspace_files where ${ofInstance(instance)} and path = ${path}), 0) as replaced
    from budgets where org_id = ${instance.orgId}`.execute(transaction);
  const found = rows[0] ?? { bytes: 0, replaced: 0 };
  const growth = bytes - found.replaced;
  if (maxBytes !== undefined && growth > 0 && found.bytes + growth > maxBytes)
    throw new ServiceError('too-large', `The files of this organization may have ${maxBytes} bytes together`);
  return growth;
}

/** Under the empty path, which no file has, so that no turn waits for the row. */
async function writeContent(transaction: Db, { orgId, agentId, instanceKey }: Instance, content: Uint8Array): Promise<void> {
  await sql`insert into workspace_files (org_id, agent_id, instance_key, path, content, size)
    values (${orgId}, ${agentId}, ${instanceKey}, '', ${fromBase64(content)}, ${content.length})`.execute(transaction);
}

async function stage(transaction: Db, sessionId: string, path: string): Promise<void> {
  const staged = await transaction
    .updateTable('sessions')
    .set({
      staged_files: sql`case when staged_files::jsonb @> ${JSON.stringify([path])}::jsonb then staged_files
        else (staged_files::jsonb || ${JSON.stringify([path])}::jsonb)::json end`,
    })
    .where('id', '=', sessionId)
    .executeTakeFirst();
  if (staged.numUpdatedRows === 0n) throw notFound();
}

/** Replaces the file that has the path. The insert locks the path if there is none, so that no turn creates it meanwhile. */
async function putInPlace(transaction: Db, instance: Instance, path: string): Promise<void> {
  const { orgId, agentId, instanceKey } = instance;
  await sql`insert into workspace_files (org_id, agent_id, instance_key, path, content, size)
    values (${orgId}, ${agentId}, ${instanceKey}, ${path}, '', 0)
    on conflict (org_id, agent_id, instance_key, path) do update set updated_at = now()`.execute(transaction);
  await sql`delete from workspace_files where ${ofInstance(instance)} and path = ${path}`.execute(transaction);
  await sql`update workspace_files set path = ${path} where ${ofInstance(instance)} and path = ''`.execute(transaction);
}

/** Where an upload of this name is kept. Throws `bad-request` for a name without a usable basename. */
export function uploadPath(name: string): string {
  const given = name.slice(Math.max(name.lastIndexOf('/'), name.lastIndexOf('\\')) + 1).trim();
  // The time to normalize grows with the square of the length: 80 kB of accents block the process for seconds. No name this long
  // becomes one of 255 bytes.
  const basename = given.length > 1_024 ? given : given.normalize('NFC');
  const problem = basenameProblem(basename);
  if (problem !== undefined) throw new ServiceError('bad-request', `name: ${problem}`);
  return `${directory}/${basename}`;
}

function basenameProblem(basename: string): string | undefined {
  if (basename === '') return 'is empty';
  if (!basename.isWellFormed()) return 'is not valid Unicode';
  if (Buffer.byteLength(basename) > 255) return 'is longer than 255 bytes';
  if (/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(basename)) return 'contains control characters';
  // Characters that a person, or a program that normalizes names, would take for a separator or for a parent directory.
  if (separatorLookAlikes.test(basename) || /[/\\]/.test(basename.normalize('NFKC'))) return 'contains a look-alike of a path separator';
  if (/^[.\u2024\u2025\u2026\uff0e\u3002\uff61\ufe52]+$/u.test(basename)) return 'consists of dots';
  return undefined;
}

const separatorLookAlikes = /[\u2044\u2215\u2216\u29f5\u29f8\u29f9\u2571\u2572\uff0f\uff3c\ufe68\u{1f67c}\u{1f67d}]/u;
