import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '../../../context.ts';
import type { Db } from '../../../database/database.ts';
import { keyReused, ServiceError } from '../../../errors.ts';
import { principalOf } from '../caller/authenticate.ts';
import { keyFingerprintOf } from './fingerprints.ts';

const keptMs = 24 * 3_600_000;

export interface KeptKey {
  fingerprint: string;
  /** The turn that the request started; its answer is made again from the log. */
  turn_id: string | null;
  /** The sealed answer of any other request. */
  response: string | null;
  /** Set where a request is worked on outside of the database: until when its process is known to. */
  held_until: Date | null;
}

const keptColumns = ['fingerprint', 'turn_id', 'response', 'held_until'] as const;

export function idempotencyKey(request: FastifyRequest): string | undefined {
  const key = request.headers['idempotency-key'];
  if (key === undefined) return undefined;
  if (typeof key === 'string' && key.length >= 1 && key.length <= 255) return key;
  throw new ServiceError(request.routeOptions.config.badBody ?? 'invalid', 'Idempotency-Key: must be 1 to 255 characters');
}

/** A key that was used in the last 24 h, if the same request used it; another request under the same key is refused. */
export async function findKey(context: Context, request: FastifyRequest, key: string): Promise<KeptKey | undefined> {
  const kept = await context.database.db
    .selectFrom('idempotency_keys')
    .select(keptColumns)
    .where('org_id', '=', principalOf(request).organization.id)
    .where('key', '=', key)
    .where('created_at', '>', new Date(Date.now() - keptMs))
    .executeTakeFirst();
  if (kept !== undefined && kept.fingerprint !== keyFingerprintOf(request)) throw keyReused();
  return kept;
}

/**
 * Undefined when the key is ours now, else what an earlier copy of the request left under it; another request is refused. Of
 * two at once, the second waits here until the first has committed.
 */
export async function takeKey(
  transaction: Db,
  orgId: number,
  key: string,
  fingerprint: string,
  at: Date,
  kept: { response?: string; held_until?: Date } = {},
): Promise<KeptKey | undefined> {
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
  const earlier = await readKey(transaction, orgId, key);
  // Given back in between, by one that was refused.
  if (earlier === undefined) return takeKey(transaction, orgId, key, fingerprint, at, kept);
  if (earlier.fingerprint !== fingerprint) throw keyReused();
  return earlier;
}

/** What is kept under the key, whoever asks. */
export async function readKey(db: Db, orgId: number, key: string, since = new Date(0)): Promise<KeptKey | undefined> {
  return db
    .selectFrom('idempotency_keys')
    .select(keptColumns)
    .where('org_id', '=', orgId)
    .where('key', '=', key)
    .where('created_at', '>', since)
    .executeTakeFirst();
}

/** Keeps the answer of the request that took the key. */
export async function keepAnswer(context: Context, db: Db, orgId: number, key: string, answer: unknown): Promise<void> {
  const response = sealAnswer(context, orgId, key, answer);
  await db.updateTable('idempotency_keys').set({ response }).where('org_id', '=', orgId).where('key', '=', key).execute();
}

/** Answers are kept encrypted, since they may hold a secret; moved to another org or key, one does not open. */
export function sealAnswer({ secrets }: Context, orgId: number, key: string, answer: unknown): string {
  return secrets.seal(JSON.stringify(answer), `org ${orgId} idempotency ${key}`);
}

export function openAnswer<Answer>({ secrets }: Context, orgId: number, key: string, response: string): Answer {
  return JSON.parse(secrets.open(response, `org ${orgId} idempotency ${key}`));
}

/** The answer under this key is not kept: the same request may run again. */
export async function forgetKey(context: Context, request: FastifyRequest): Promise<void> {
  const key = idempotencyKey(request);
  if (key === undefined) return;
  const { db } = context.database;
  await db.deleteFrom('idempotency_keys').where('org_id', '=', principalOf(request).organization.id).where('key', '=', key).execute();
}

/** Makes something once: its answer is kept in the same transaction, and a repetition gets it again. */
export async function makeUnderKey<Body>(
  context: Context,
  transaction: Db,
  reply: FastifyReply,
  { orgId, key, fingerprint }: { orgId: number; key: string; fingerprint: string },
  work: () => Promise<Body>,
): Promise<Body> {
  const earlier = await takeKey(transaction, orgId, key, fingerprint, context.clock.now());
  if (earlier !== undefined) return answerAgain(context, reply, orgId, key, earlier);
  const body = await work();
  await keepAnswer(context, transaction, orgId, key, body);
  return body;
}

export function answerAgain<Body>(context: Context, reply: FastifyReply, orgId: number, key: string, earlier: KeptKey): Body {
  if (earlier.response === null) throw keyReused();
  sayReplayed(reply);
  return openAnswer(context, orgId, key, earlier.response);
}

/**
 * For work that has the same result however often it is done, so that no answer need be kept. Under a key a repetition is
 * marked as one, and another request is refused.
 */
export async function underKey<Result>(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  work: () => Promise<Result>,
): Promise<Result> {
  const key = idempotencyKey(request);
  if (key === undefined) return work();
  const fingerprint = keyFingerprintOf(request);
  const earlier = await takeKey(context.database.db, principalOf(request).organization.id, key, fingerprint, context.clock.now());
  const result = await work().catch(async (error: unknown) => {
    // Nothing was done: another request may have the key.
    if (earlier === undefined && error instanceof ServiceError) await forgetKey(context, request);
    throw error;
  });
  if (earlier !== undefined) sayReplayed(reply);
  return result;
}

export function sayReplayed(reply: FastifyReply): void {
  reply.header('idempotent-replayed', 'true');
}
