import { type Actor, recordAudit } from '../audit/record.ts';
import type { Db } from '../database/database.ts';
import { contextOfOrg, type SecretBox } from './secret-box.ts';

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
  // Four characters would be too much of a short secret.
  const lastFour = input.secret.length >= 12 ? input.secret.slice(-4).toWellFormed() : '';
  const values = { ciphertext: box.seal(input.secret, contextOfOrg(actor.orgId)), last_four: lastFour, updated_at: actor.at };
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

/** In the order of their names. `after` is the last name on the previous page. */
export async function listCredentials(
  db: Db,
  orgId: number,
  page: { limit: number; after: string | undefined },
): Promise<ModelCredential[]> {
  let query = selectCredentials(db, orgId).orderBy('name').limit(page.limit);
  if (page.after !== undefined) query = query.where('name', '>', page.after);
  return query.execute();
}

/** Undefined when the org has none of that name. */
export async function findCredential(db: Db, orgId: number, name: string): Promise<ModelCredential | undefined> {
  return selectCredentials(db, orgId).where('name', '=', name).executeTakeFirst();
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

/** Still encrypted. Undefined when the org has none of that name. */
export async function readSealedCredential(db: Db, orgId: number, name: string): Promise<string | undefined> {
  const query = db.selectFrom('model_credentials').select('ciphertext').where('org_id', '=', orgId).where('name', '=', name);
  return (await query.executeTakeFirst())?.ciphertext;
}

function selectCredentials(db: Db, orgId: number) {
  return db
    .selectFrom('model_credentials')
    .select(['name', 'last_four as lastFour', 'updated_at as updatedAt'])
    .where('org_id', '=', orgId);
}
