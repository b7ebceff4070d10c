import { sql } from 'kysely';
import type { Db } from '../database/database.ts';
import { keyReused } from '../errors.ts';

// All times are by the clock of the database, which all processes share: one whose own is wrong would find every key expired.

/** For how long a key is kept. */
const keptMs = 24 * 3_600_000;

/** The Idempotency-Key of a request, which belongs to an org. A repetition is the same request if it has the same fingerprint. */
export interface RequestKey {
  orgId: number;
  key: string;
  fingerprint: string;
  /** When this request took the key. If it is given, nothing is written under the key once another request has taken it over. */
  takenAt?: Date;
}

/** What the first request with an Idempotency-Key has left for its repetitions. */
export interface KeptKey {
  fingerprint: string;
  /** The turn that the request started, from whose log the answer is made again. */
  turnId: string | null;
  /** The sealed answer of a request that started no turn, or the sealed events of a turn whose session was deleted after it. */
  response: string | null;
  /** For work that no transaction covers: whether the process of the first request is assumed to be at work on it. */
  isHeld: boolean;
  createdAt: Date;
}

export interface TakenKey {
  /** When the key was first used, or was last taken over. */
  takenAt: Date;
  /** What the first request with this key left, unless this is the first. */
  earlier: KeptKey | undefined;
}

/**
 * Stores the key for this request, with an answer, or for work that takes its time. Throws if a different request used it.
 * Of two concurrent requests, the second waits here until the first has committed.
 */
export async function takeKey(transaction: Db, own: RequestKey, kept: { response?: string; holdMs?: number } = {}): Promise<TakenKey> {
  const { orgId, key, fingerprint } = own;
  const { response = null, holdMs } = kept;
  await transaction
    .deleteFrom('idempotency_keys')
    .where('org_id', '=', orgId)
    .where('key', '=', key)
    .where('created_at', '<', ago(keptMs))
    .execute();
  const taken = await transaction
    .insertInto('idempotency_keys')
    .values({ org_id: orgId, key, fingerprint, response, held_until: holdMs === undefined ? null : fromNow(holdMs) })
    .onConflict((conflict) => conflict.columns(['org_id', 'key']).doNothing())
    .returning('created_at')
    .executeTakeFirst();
  if (taken !== undefined) return { takenAt: taken.created_at, earlier: undefined };
  const earlier = await readKey(transaction, own);
  // The first request was refused and has given the key back in between.
  if (earlier === undefined) return takeKey(transaction, own, kept);
  if (earlier.fingerprint !== fingerprint) throw keyReused();
  return { takenAt: earlier.createdAt, earlier };
}

/** What this request left if it was sent before, within the last 24 hours. Throws if a different request used the key. */
export async function findKey(db: Db, own: RequestKey): Promise<KeptKey | undefined> {
  const kept = await readKey(db, own);
  if (kept !== undefined && kept.fingerprint !== own.fingerprint) throw keyReused();
  return kept;
}

/** What is kept under the key, even if a different request left it. */
export async function readKey(db: Db, { orgId, key }: RequestKey, withinMs = keptMs): Promise<KeptKey | undefined> {
  return db
    .selectFrom('idempotency_keys')
    .select(['fingerprint', 'turn_id as turnId', 'response', 'created_at as createdAt'])
    .select(sql<boolean>`coalesce(held_until > now(), false)`.as('isHeld'))
    .where('org_id', '=', orgId)
    .where('key', '=', key)
    .where('created_at', '>=', ago(withinMs))
    .executeTakeFirst();
}

/** Keeps the sealed answer of the request that took the key. */
export async function keepResponse(db: Db, own: RequestKey, response: string): Promise<void> {
  await db.updateTable('idempotency_keys').set({ response }).where(isRowOf(own)).execute();
}

/** Keeps a turn with its sealed answer, whether or not the key was taken before. */
export async function keepTurnUnder(
  db: Db,
  { orgId, key, fingerprint }: RequestKey,
  { turnId, response }: { turnId: string; response: string },
): Promise<void> {
  const kept = { turn_id: turnId, response, created_at: fromNow(0) };
  await db
    .insertInto('idempotency_keys')
    .values({ org_id: orgId, key, fingerprint, ...kept })
    .onConflict((conflict) => conflict.columns(['org_id', 'key']).doUpdateSet(kept))
    .execute();
}

/** Deletes the key, so that it can be used again by any request. */
export async function giveBackKey(db: Db, own: RequestKey): Promise<void> {
  await db.deleteFrom('idempotency_keys').where(isRowOf(own)).execute();
}

/**
 * Marks the key as shared, by a hold that has expired already: a repetition does the work too, so the first request may no longer give the
 * key back. False if it has done so, or if another request has taken the key since.
 */
export async function shareKey(db: Db, own: RequestKey): Promise<boolean> {
  const shared = await db
    .updateTable('idempotency_keys')
    .set({ held_until: fromNow(0) })
    .where(isRowOf(own))
    .executeTakeFirst();
  return shared.numUpdatedRows > 0n;
}

/** Deletes the key like `giveBackKey`, unless it is shared. */
export async function giveBackUnsharedKey(db: Db, own: RequestKey): Promise<void> {
  await db.deleteFrom('idempotency_keys').where(isRowOf(own)).where('held_until', 'is', null).execute();
}

/** Renews the hold of the process that works on the request. */
export async function holdKey(db: Db, own: RequestKey, holdMs: number): Promise<void> {
  await db
    .updateTable('idempotency_keys')
    .set({ held_until: fromNow(holdMs) })
    .where(isRowOf(own))
    .execute();
}

/** Takes over a key that nobody holds any more, and returns when. If two processes try at the same moment, only one gets it. */
export async function takeOverKey(db: Db, own: RequestKey, holdMs: number): Promise<Date | undefined> {
  const taken = await db
    .updateTable('idempotency_keys')
    .set({ held_until: fromNow(holdMs), created_at: fromNow(0) })
    .where(isRowOf(own))
    .where(sql<boolean>`coalesce(held_until <= now(), true)`)
    .returning('created_at')
    .executeTakeFirst();
  return taken?.created_at;
}

function isRowOf({ orgId, key, takenAt }: RequestKey) {
  const isKey = sql<boolean>`org_id = ${orgId} and key = ${key}`;
  // A Date has no microseconds.
  return takenAt === undefined ? isKey : sql<boolean>`${isKey} and date_trunc('milliseconds', created_at) = ${takenAt}`;
}

function ago(milliseconds: number) {
  return fromNow(-milliseconds);
}

function fromNow(milliseconds: number) {
  return sql<Date>`now() + ${milliseconds} * interval '1 millisecond'`;
}
