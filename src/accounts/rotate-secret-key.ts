import { sql } from 'kysely';
import type { Database, Db } from '../database/database.ts';
import { locks } from '../database/locks.ts';
import { contextOfOrg, type SecretBox } from './secret-box.ts';
import { resealSigningKeys } from './signing-keys.ts';

/**
 * Encrypts everything stored with another secret key, all of it or nothing. Every process must be stopped meanwhile and
 * started again with the new key. Kept answers of idempotency keys are dropped; people sign in again.
 */
export async function rotateSecretKey(database: Database, from: SecretBox, to: SecretBox): Promise<{ resealed: number }> {
  return database.db.transaction().execute(async (transaction) => {
    // One that serves would go on storing under the old key what nobody could open afterwards.
    const { rows } = await sql<{ free: boolean }>`select pg_try_advisory_xact_lock(${locks.serving}) as free`.execute(transaction);
    if (rows[0]?.free !== true) throw new Error('a server is connected to this database; stop every server first. Nothing was changed');
    const resealed = (await resealCredentials(transaction, from, to)) + (await resealWebhookSecrets(transaction, from, to));
    await resealSigningKeys(transaction, from, to);
    await transaction.deleteFrom('idempotency_keys').where('response', 'is not', null).execute();
    await transaction
      .updateTable('installation')
      .set({ value: JSON.stringify({ id: to.keyId }) })
      .where('key', '=', 'secret_key')
      .execute();
    return { resealed };
  });
}

async function resealCredentials(transaction: Db, from: SecretBox, to: SecretBox): Promise<number> {
  const rows = await transaction.selectFrom('model_credentials').select(['org_id', 'name', 'ciphertext']).forUpdate().execute();
  for (const { org_id: orgId, name, ciphertext: sealed } of rows) {
    const ciphertext = to.seal(from.open(sealed, contextOfOrg(orgId)), contextOfOrg(orgId));
    await transaction.updateTable('model_credentials').set({ ciphertext }).where('org_id', '=', orgId).where('name', '=', name).execute();
  }
  return rows.length;
}

async function resealWebhookSecrets(transaction: Db, from: SecretBox, to: SecretBox): Promise<number> {
  const rows = await transaction
    .selectFrom('webhook_endpoints')
    .select(['id', 'org_id', 'secret_ciphertext', 'previous_secret_ciphertext'])
    .forUpdate()
    .execute();
  for (const row of rows) {
    const context = contextOfOrg(row.org_id);
    const again = (sealed: string) => to.seal(from.open(sealed, context), context);
    await transaction
      .updateTable('webhook_endpoints')
      .set({
        secret_ciphertext: again(row.secret_ciphertext),
        previous_secret_ciphertext: row.previous_secret_ciphertext === null ? null : again(row.previous_secret_ciphertext),
      })
      .where('id', '=', row.id)
      .execute();
  }
  return rows.length;
}
