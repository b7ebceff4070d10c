import { timingSafeEqual } from 'node:crypto';
import { sql } from 'kysely';
import type { Db } from '../database/database.ts';
import { keyShapes } from '../text/key-shapes.ts';
import { SharedWork } from '../work/shared-work.ts';
import { hashOfSecret } from './api-keys.ts';

/** Replaces the key, of which only the hash is stored. */
export async function storeOperatorKey(db: Db, key: string): Promise<void> {
  await db
    .insertInto('installation')
    .values({ key: 'operator_key', value: JSON.stringify({ hash: hashOfSecret(key) }) })
    .onConflict((conflict) => conflict.column('key').doUpdateSet((row) => ({ value: row.ref('excluded.value') })))
    .execute();
}

/** Anybody can try out keys: requests at the same moment share one query, so that they take the database from nobody else. */
export async function isOperatorKey(db: Db, secret: string): Promise<boolean> {
  if (!keyShapes.operator.test(secret)) return false;
  const reads = readsOf.get(db) ?? new SharedWork<string | undefined>();
  readsOf.set(db, reads);
  const stored = await reads.run('operator_key', () => readHash(db));
  return stored !== undefined && timingSafeEqual(Buffer.from(stored), Buffer.from(hashOfSecret(secret)));
}

const readsOf = new WeakMap<Db, SharedWork<string | undefined>>();

async function readHash(db: Db): Promise<string | undefined> {
  const { rows } = await sql<{ hash: string }>`select value ->> 'hash' as hash from installation where key = 'operator_key'`.execute(db);
  return rows[0]?.hash;
}
