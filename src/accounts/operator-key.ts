import { timingSafeEqual } from 'node:crypto';
import { sql } from 'kysely';
import type { Db } from '../database/database.ts';
import { keyShapes } from '../text/key-shapes.ts';
import { hashOfSecret } from './api-keys.ts';

/** Replaces the key, of which only the hash is stored. */
export async function storeOperatorKey(db: Db, key: string): Promise<void> {
  await db
    .insertInto('installation')
    .values({ key: 'operator_key', value: JSON.stringify({ hash: hashOfSecret(key) }) })
    .onConflict((conflict) => conflict.column('key').doUpdateSet((row) => ({ value: row.ref('excluded.value') })))
    .execute();
}

export async function isOperatorKey(db: Db, secret: string): Promise<boolean> {
  if (!keyShapes.operator.test(secret)) return false;
  const { rows } = await sql<{ hash: string }>`select value ->> 'hash' as hash from installation where key = 'operator_key'`.execute(db);
  const stored = rows[0]?.hash;
  return stored !== undefined && timingSafeEqual(Buffer.from(stored), Buffer.from(hashOfSecret(secret)));
}
