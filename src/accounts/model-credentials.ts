import { type Actor, recordAudit } from '../audit/record.ts';
import type { Db } from '../database/database.ts';
import type { SecretBox } from './secret-box.ts';

/** What may be shown of a stored credential. */
export interface ModelCredential {
  name: string;
  lastFour: string;
  updatedAt: Date;
}

export function isCredentialName(name: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/.test(name);
}

/** Stores a customer's own key for a provider, or for an MCP server that names it as its `credential`. */
export async function storeCredential(
  transaction: Db,
  actor: Actor,
  box: SecretBox,
  input: { name: string; secret: string },
): Promise<ModelCredential> {
  // Of a short secret, four characters would be too much of it.
  const lastFour = input.secret.length >= 12 ? input.secret.slice(-4).toWellFormed() : '';
  const values = { ciphertext: box.seal(input.secret, credentialContext(actor.orgId)), last_four: lastFour, updated_at: actor.at };
  await transaction
    .insertInto('model_credentials')
    .values({ org_id: actor.orgId, name: input.name, ...values })
    .onConflict((conflict) => conflict.columns(['org_id', 'name']).doUpdateSet(values))
    .execute();
  await recordAudit(transaction, actor, {
    action: 'model_credential.stored',
    subjectType: 'model_credential',
    subjectId: input.name,
    metadata: { provider: input.name, last_four: lastFour },
  });
  return { name: input.name, lastFour, updatedAt: actor.at };
}

export async function listCredentials(db: Db, orgId: number): Promise<ModelCredential[]> {
  const rows = await db
    .selectFrom('model_credentials')
    .select(['name', 'last_four', 'updated_at'])
    .where('org_id', '=', orgId)
    .orderBy('name')
    .execute();
  return rows.map((row) => ({ name: row.name, lastFour: row.last_four, updatedAt: row.updated_at }));
}

/** False when the org has none of that name. */
export async function deleteCredential(transaction: Db, actor: Actor, name: string): Promise<boolean> {
  const deleted = await transaction
    .deleteFrom('model_credentials')
    .where('org_id', '=', actor.orgId)
    .where('name', '=', name)
    .returning('name')
    .executeTakeFirst();
  if (deleted === undefined) return false;
  await recordAudit(transaction, actor, {
    action: 'model_credential.deleted',
    subjectType: 'model_credential',
    subjectId: name,
    metadata: { provider: name },
  });
  return true;
}

/** The sealed credentials of an org, by name. */
export async function readSealedCredentials(db: Db, orgId: number): Promise<Map<string, string>> {
  const rows = await db.selectFrom('model_credentials').select(['name', 'ciphertext']).where('org_id', '=', orgId).execute();
  return new Map(rows.map((row) => [row.name, row.ciphertext]));
}

export function credentialContext(orgId: number): string {
  return `org ${orgId}`;
}
