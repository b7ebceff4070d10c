import { sql } from 'kysely';
import type { Database, Db } from '../database/database.ts';
import { locks } from '../database/locks.ts';
import { contextOfOrg, type SecretBox } from './secret-box.ts';
import { type Reseal, resealSigningKeys } from './signing-keys.ts';

/**
 * Encrypts every stored secret anew, with the secret key of the box `to`: all of them or none. Every server must be stopped
 * before and started with the new key afterwards. Stored answers of idempotency keys are deleted; people have to sign in again.
 */
export async function rotateSecretKey(database: Database, from: SecretBox, to: SecretBox): Promise<{ resealed: number }> {
  return database.db.transaction().execute(async (transaction) => {
    // A running server would go on encrypting with the old key, and nobody could read that afterwards.
    const { rows } = await sql<{ free: boolean }>`select pg_try_advisory_xact_lock(${locks.serving}) as free`.execute(transaction);
    if (rows[0]?.free !== true) throw new Error('a server is connected to this database; stop every server first. Nothing was changed');
    const reseal: Reseal = (sealed, context) => to.seal(from.open(sealed, context), context);
    const resealed = (await resealCredentials(transaction, reseal)) + (await resealWebhookSecrets(transaction, reseal));
    await resealSigningKeys(transaction, reseal);
    await transaction.deleteFrom('idempotency_keys').where('response', 'is not', null).execute();
    await transaction
      .updateTable('installation')
      .set({ value: JSON.stringify({ id: to.keyId }) })
      .where('key', '=', 'secret_key')
      .execute();
    return { resealed };
  });
}

async function resealCredentials(transaction: Db, reseal: Reseal): Promise<number> {
  const rows = await transaction.selectFrom('model_credentials').select(['org_id', 'name', 'ciphertext']).forUpdate().execute();
  for (const { org_id: orgId, name, ciphertext: sealed } of rows) {
    const ciphertext = reseal(sealed, contextOfOrg(orgId));
    await transaction.updateTable('model_credentials').set({ ciphertext }).where('org_id', '=', orgId).where('name', '=', name).execute();
  }
  return rows.length;
}

async function resealWebhookSecrets(transaction: Db, reseal: Reseal): Promise<number> {
  const rows = await transaction
    .selectFrom('webhook_endpoints')
    .select(['id', 'org_id', 'secret_ciphertext', 'previous_secret_ciphertext'])
    .forUpdate()
    .execute();
  for (const row of rows) {
    const context = contextOfOrg(row.org_id);
    await transaction
      .updateTable('webhook_endpoints')
      .set({
        secret_ciphertext: reseal(row.secret_ciphertext, context),
        previous_secret_ciphertext: row.previous_secret_ciphertext === null ? null : reseal(row.previous_secret_ciphertext, context),
      })
      .where('id', '=', row.id)
      .execute();
  }
  return rows.length;
}
