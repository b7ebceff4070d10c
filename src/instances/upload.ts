import { sql } from 'kysely';
import type { Db } from '../database/database.ts';
import { locks } from '../database/locks.ts';
import { ServiceError } from '../errors.ts';
import { workspaceLimits } from '../workspace-limits.ts';
import type { Instance } from './workspace.ts';

const { fileBytes, totalBytes, files } = workspaceLimits;

/**
 * Writes an upload into the workspace of the session and lists it for the next turn, both or neither. Returns its path,
 * or undefined when the org has no such session. The same name again replaces the file.
 */
export async function stageUpload(
  db: Db,
  orgId: number,
  sessionId: string,
  { name, content }: { name: string; content: Uint8Array },
): Promise<string | undefined> {
  const path = uploadPath(name);
  if (content.length > fileBytes) throw new ServiceError('too-large', `A file may have ${fileBytes} bytes`);
  return db.transaction().execute(async (transaction) => {
    const session = await transaction
      .updateTable('sessions')
      .set({
        staged_files: sql`case when staged_files::jsonb @> ${JSON.stringify([path])}::jsonb then staged_files
          else (staged_files::jsonb || ${JSON.stringify([path])}::jsonb)::json end`,
      })
      .where('org_id', '=', orgId)
      .where('id', '=', sessionId)
      .returning(['agent_id', 'instance_key'])
      .executeTakeFirst();
    if (session === undefined) return undefined;
    await writeFile(transaction, { orgId, agentId: session.agent_id, instanceKey: session.instance_key }, path, content);
    return path;
  });
}

async function writeFile(db: Db, { orgId, agentId, instanceKey }: Instance, path: string, content: Uint8Array): Promise<void> {
  // Until commit: the sessions of an instance share its workspace, and each would count without the other's upload.
  await sql`select pg_advisory_xact_lock(${locks.workspace}, hashtext(${`${orgId} ${agentId} ${instanceKey}`}))`.execute(db);
  const others = await db
    .selectFrom('workspace_files')
    .select(({ fn }) => [fn.countAll<string>().as('count'), fn.coalesce(fn.sum<string>('size'), sql<string>`0`).as('bytes')])
    .where('org_id', '=', orgId)
    .where('agent_id', '=', agentId)
    .where('instance_key', '=', instanceKey)
    .where('path', '!=', path)
    .executeTakeFirstOrThrow();
  if (Number(others.count) >= files) throw new ServiceError('too-large', `A workspace may have ${files} files`);
  if (Number(others.bytes) + content.length > totalBytes) {
    throw new ServiceError('too-large', `A workspace may have ${totalBytes} bytes`);
  }
  // As base64, because the embedded engine takes 8 times as long for bytes.
  const bytes = sql<Uint8Array>`decode(${Buffer.from(content).toString('base64')}, 'base64')`;
  await db
    .insertInto('workspace_files')
    .values({ org_id: orgId, agent_id: agentId, instance_key: instanceKey, path, content: bytes, size: content.length })
    .onConflict((conflict) =>
      conflict.columns(['org_id', 'agent_id', 'instance_key', 'path']).doUpdateSet((row) => ({
        content: row.ref('excluded.content'),
        size: row.ref('excluded.size'),
        updated_at: sql<Date>`now()`,
      })),
    )
    .execute();
}

/** Where an upload of this name is kept. Throws `bad-request` for a name without a usable basename. */
export function uploadPath(name: string): string {
  const basename = (name.split(/[/\\]/).at(-1) ?? '').trim().normalize('NFC');
  const problem = basenameProblem(basename);
  if (problem !== undefined) throw new ServiceError('bad-request', `name: ${problem}`);
  return `uploads/${basename}`;
}

function basenameProblem(basename: string): string | undefined {
  if (basename === '') return 'is empty';
  if (!basename.isWellFormed()) return 'is not valid Unicode';
  if (Buffer.byteLength(basename) > 255) return 'is longer than 255 bytes';
  if (/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(basename)) return 'contains control characters';
  // What a person, or a tool that normalises names, would take for a separator or for a parent directory.
  if (separatorLookAlikes.test(basename) || /[/\\]/.test(basename.normalize('NFKC'))) return 'contains a look-alike of a path separator';
  if (/^[.\u2024\u2025\u2026\uff0e\u3002\uff61\ufe52]+$/u.test(basename)) return 'consists of dots';
  return undefined;
}

const separatorLookAlikes = /[\u2044\u2215\u2216\u29f5\u29f8\u29f9\u2571\u2572\uff0f\uff3c\ufe68\u{1f67c}\u{1f67d}]/u;
