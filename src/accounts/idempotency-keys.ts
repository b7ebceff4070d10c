import type { Db } from '../database/database.ts';
import { keyReused } from '../errors.ts';

const keptMs = 24 * 3_600_000;

/** The Idempotency-Key of a request. Keys are the org's; the fingerprint is what makes a repetition the same request. */
export interface RequestKey {
  orgId: number;
  key: string;
  fingerprint: string;
}

/** What the first request under an Idempotency-Key left there. */
export interface KeptKey {
  fingerprint: string;
  /** The turn that the request started; its answer is made again from the log. */
  turn_id: string | null;
  /** The sealed answer of any other request. */
  response: string | null;
  /** Set where a request is worked on outside of the database: until when its process is known to. */
  held_until: Date | null;
  created_at: Date;
}

/**
 * Undefined when the key is ours now, else what an earlier copy of the request left under it; another request is refused. Of
 * two at once, the second waits here until the first has committed.
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
  // Given back in between, by one that was refused.
  if (earlier === undefined) return takeKey(transaction, own, at, kept);
  if (earlier.fingerprint !== fingerprint) throw keyReused();
  return earlier;
}

/** A key that was used in the last 24 h, if the same request used it; another request under the same key is refused. */
export async function findKey(db: Db, own: RequestKey): Promise<KeptKey | undefined> {
  const kept = await readKey(db, own, new Date(Date.now() - keptMs));
  if (kept !== undefined && kept.fingerprint !== own.fingerprint) throw keyReused();
  return kept;
}

/** What is kept under the key, whoever asks. */
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

/** Keeps a turn with its sealed answer, under a key that may not have been taken. */
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

/** Gives the key back: the same request may run again, or another under it. */
export async function giveBackKey(db: Db, { orgId, key }: RequestKey): Promise<void> {
  await db.deleteFrom('idempotency_keys').where('org_id', '=', orgId).where('key', '=', key).execute();
}

export async function holdKey(db: Db, { orgId, key }: RequestKey, heldUntil: Date): Promise<void> {
  await db.updateTable('idempotency_keys').set({ held_until: heldUntil }).where('org_id', '=', orgId).where('key', '=', key).execute();
}

/** Holds a key that was let go of at `letGoAt`. Of two that find it so at the same moment, one gets it. */
export async function takeOverKey(db: Db, { orgId, key }: RequestKey, letGoAt: Date | null, heldUntil: Date): Promise<boolean> {
  const taken = await db
    .updateTable('idempotency_keys')
    .set({ held_until: heldUntil })
    .where('org_id', '=', orgId)
    .where('key', '=', key)
    .where('held_until', 'is not distinct from', letGoAt)
    .executeTakeFirst();
  return taken.numUpdatedRows > 0n;
}
