import type { Db } from '../database/database.ts';
import { keyReused } from '../errors.ts';

const keptMs = 24 * 3_600_000;

/** The Idempotency-Key of a request, which belongs to an org. A repetition is the same request if it has the same fingerprint. */
export interface RequestKey {
  orgId: number;
  key: string;
  fingerprint: string;
}

/** What the first request with an Idempotency-Key has left for its repetitions. */
export interface KeptKey {
  fingerprint: string;
  /** The turn that the request started, from whose log the answer is made again. */
  turn_id: string | null;
  /** The sealed answer of a request that started no turn. */
  response: string | null;
  /** For work that no transaction covers: until then, unless renewed, the process of the first request is assumed to be at it. */
  held_until: Date | null;
  created_at: Date;
}

/**
 * Stores the key for this request. Returns undefined if it is the first with this key, otherwise what the first one left;
 * throws if that was a different request. Of two concurrent requests, the second waits here until the first has committed.
 */
export async function takeKey(
  transaction: Db,
  own: RequestKey,
  at: Date,
  kept: { response?: string; held_until?: Date } = {},
): Promise<KeptKey | undefined> {
  const { orgId, key, fingerprint } = own;
  await transaction
    .deleteFrom('idempotency_keys')
    .where('org_id', '=', orgId)
    .where('key', '=', key)
    .where('created_at', '<', new Date(at.getTime() - keptMs))
    .execute();
  const taken = await transaction
    .insertInto('idempotency_keys')
    .values({ org_id: orgId, key, fingerprint, ...kept, created_at: at })
    .onConflict((conflict) => conflict.columns(['org_id', 'key']).doNothing())
    .returning('key')
    .executeTakeFirst();
  if (taken !== undefined) return undefined;
  const earlier = await readKey(transaction, own);
  // The first request was refused and has given the key back in between.
  if (earlier === undefined) return takeKey(transaction, own, at, kept);
  if (earlier.fingerprint !== fingerprint) throw keyReused();
  return earlier;
}

/** What this request left if it was sent before, within the last 24 hours. Throws if a different request used the key. */
export async function findKey(db: Db, own: RequestKey): Promise<KeptKey | undefined> {
  const kept = await readKey(db, own, new Date(Date.now() - keptMs));
  if (kept !== undefined && kept.fingerprint !== own.fingerprint) throw keyReused();
  return kept;
}

/** What is kept under the key, also if a different request left it. */
export async function readKey(db: Db, { orgId, key }: RequestKey, since = new Date(0)): Promise<KeptKey | undefined> {
  return db
    .selectFrom('idempotency_keys')
    .select(['fingerprint', 'turn_id', 'response', 'held_until', 'created_at'])
    .where('org_id', '=', orgId)
    .where('key', '=', key)
    .where('created_at', '>', since)
    .executeTakeFirst();
}

/** Keeps the sealed answer of the request that took the key. */
export async function keepResponse(db: Db, { orgId, key }: RequestKey, response: string): Promise<void> {
  await db.updateTable('idempotency_keys').set({ response }).where('org_id', '=', orgId).where('key', '=', key).execute();
}

/** Keeps a turn with its sealed answer, whether or not the key was taken before. */
export async function keepTurnUnder(
  db: Db,
  { orgId, key, fingerprint }: RequestKey,
  kept: { turn_id: string; response: string; created_at: Date },
): Promise<void> {
  await db
    .insertInto('idempotency_keys')
    .values({ org_id: orgId, key, fingerprint, ...kept })
    .onConflict((conflict) => conflict.columns(['org_id', 'key']).doUpdateSet(kept))
    .execute();
}

/** Deletes the key, so that it can be used again by any request. */
export async function giveBackKey(db: Db, { orgId, key }: RequestKey): Promise<void> {
  await db.deleteFrom('idempotency_keys').where('org_id', '=', orgId).where('key', '=', key).execute();
}

/** Renews the hold of the process that works on the request. */
export async function holdKey(db: Db, { orgId, key }: RequestKey, heldUntil: Date): Promise<void> {
  await db.updateTable('idempotency_keys').set({ held_until: heldUntil }).where('org_id', '=', orgId).where('key', '=', key).execute();
}

/** Takes over a key whose hold ended at `expiredAt`. If two processes try at the same moment, only one gets true. */
export async function takeOverKey(db: Db, { orgId, key }: RequestKey, expiredAt: Date | null, heldUntil: Date): Promise<boolean> {
  const taken = await db
    .updateTable('idempotency_keys')
    .set({ held_until: heldUntil })
    .where('org_id', '=', orgId)
    .where('key', '=', key)
    .where('held_until', 'is not distinct from', expiredAt)
    .executeTakeFirst();
  return taken.numUpdatedRows > 0n;
}
