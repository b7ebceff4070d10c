import { hash, randomBytes } from 'node:crypto';
import type { Selectable } from 'kysely';
import { type Actor, recordAudit } from '../audit/record.ts';
import type { Db } from '../database/database.ts';
import type { Schema } from '../database/schema.ts';
import { ServiceError } from '../errors.ts';
import { emitWebhook } from '../outbox/emit-webhook.ts';
import { isScope } from './scopes.ts';

export interface ApiKey {
  id: number;
  name: string;
  prefix: string;
  scopes: string[];
  createdAt: Date;
  lastUsedAt: Date | undefined;
  revokedAt: Date | undefined;
}

const prefixLength = 'svc_live_'.length + 6;

export function newApiKeySecret(): string {
  return `svc_live_${randomBytes(32).toString('base64url')}`;
}

/** Keys are random, not chosen, so a plain SHA-256 is enough to keep them unreadable. */
export function hashOfSecret(secret: string): string {
  return hash('sha256', secret);
}

/** Refuses unknown scopes, and those that the caller does not have itself: `grantable` are the caller's scopes. */
export function assertGrantable(scopes: readonly string[], grantable: ReadonlySet<string>): void {
  const unknown = scopes.find((scope) => !isScope(scope));
  if (unknown !== undefined) throw new ServiceError('invalid', `scopes: "${unknown}" is not a scope`);
  const lacking = scopes.find((scope) => !grantable.has(scope));
  if (lacking !== undefined) throw new ServiceError('forbidden', `A key cannot grant a scope that it lacks: ${lacking}`);
}

/** The secret is returned here and never again. Call `assertGrantable` first. `input.secret` sets the value instead of a random one. */
export async function createApiKey(
  transaction: Db,
  actor: Actor,
  input: { name: string; scopes: readonly string[]; managesOwners: boolean; secret?: string },
): Promise<{ apiKey: ApiKey; secret: string }> {
  const scopes = [...new Set(input.scopes)];
  const secret = input.secret ?? newApiKeySecret();
  const row = await transaction
    .insertInto('api_keys')
    .values({
      org_id: actor.orgId,
      name: input.name,
      prefix: secret.slice(0, prefixLength),
      hash: hashOfSecret(secret),
      scopes: JSON.stringify(scopes),
      manages_owners: input.managesOwners,
      created_at: actor.at,
    })
    .returningAll()
    .executeTakeFirstOrThrow();
  await recordAudit(transaction, actor, {
    action: 'api_key.created',
    subjectType: 'api_key',
    subjectId: row.id,
    metadata: { name: row.name, prefix: row.prefix, scopes },
  });
  await emitWebhook(transaction, actor.orgId, 'api_key.created', { id: row.id, prefix: row.prefix, name: row.name });
  return { apiKey: apiKeyFrom(row), secret };
}

/** Whether the key may grant and remove the role owner. */
export async function keyManagesOwners(db: Db, orgId: number, id: number): Promise<boolean> {
  const row = await db.selectFrom('api_keys').select('manages_owners').where('org_id', '=', orgId).where('id', '=', id).executeTakeFirst();
  return row?.manages_owners ?? false;
}

/** Newest first. `before` is the id of the last key on the previous page. */
export async function listApiKeys(db: Db, orgId: number, page: { limit: number; before: number | undefined }): Promise<ApiKey[]> {
  let query = db.selectFrom('api_keys').selectAll().where('org_id', '=', orgId).orderBy('id', 'desc').limit(page.limit);
  if (page.before !== undefined) query = query.where('id', '<', page.before);
  return (await query.execute()).map(apiKeyFrom);
}

/** False when the org has no such key. Revoking a revoked key changes nothing. */
export async function revokeApiKey(transaction: Db, actor: Actor, id: number): Promise<boolean> {
  const row = await transaction
    .selectFrom('api_keys')
    .selectAll()
    .where('org_id', '=', actor.orgId)
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirst();
  if (row === undefined) return false;
  if (row.revoked_at !== null) return true;
  await transaction.updateTable('api_keys').set({ revoked_at: actor.at }).where('id', '=', id).execute();
  await recordAudit(transaction, actor, {
    action: 'api_key.revoked',
    subjectType: 'api_key',
    subjectId: id,
    metadata: { name: row.name, prefix: row.prefix },
  });
  await emitWebhook(transaction, actor.orgId, 'api_key.revoked', { id: row.id, prefix: row.prefix, name: row.name });
  return true;
}

function apiKeyFrom(row: Selectable<Schema['api_keys']>): ApiKey {
  return {
    id: row.id,
    name: row.name,
    prefix: row.prefix,
    scopes: row.scopes,
    createdAt: row.created_at,
    lastUsedAt: row.last_used_at ?? undefined,
    revokedAt: row.revoked_at ?? undefined,
  };
}
