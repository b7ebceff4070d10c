import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Actor } from '../../audit/record.ts';
import type { Context } from '../../context.ts';
import type { Db } from '../../database/database.ts';
import { actorOf } from './actor.ts';
import { principalOf } from './authenticate.ts';
import { idempotencyKey, keyFingerprintOf, keyReused } from './start-turn.ts';

type Work<Result> = (transaction: Db, actor: Actor) => Promise<Result>;

/** Changes something of the caller's org: with its audit event and its notice to other processes, or not at all. */
export function change<Result>(context: Context, request: FastifyRequest, work: Work<Result>): Promise<Result> {
  const actor = actorOf(context, request);
  return context.directory.change(actor.orgId, (transaction) => work(transaction, actor));
}

/**
 * A change that answers with what it made. With an Idempotency-Key it is made once: the answer is kept with it, in the
 * same transaction and encrypted, since it may hold a secret; a repetition gets it again.
 */
export async function changeOnce<Body>(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  status: 200 | 201 | 202,
  work: Work<Body>,
): Promise<Body> {
  const key = idempotencyKey(request);
  reply.code(status);
  if (key === undefined) return change(context, request, work);
  const { id: orgId } = principalOf(request).organization;
  const sealedFor = `org ${orgId} idempotency ${key}`;
  const fingerprint = keyFingerprintOf(request);
  return change(context, request, async (transaction, actor) => {
    const earlier = await takeKey(transaction, orgId, key, fingerprint, actor.at);
    if (earlier !== undefined) {
      if (earlier.fingerprint !== fingerprint || earlier.response === null) throw keyReused();
      reply.header('idempotent-replayed', 'true');
      return JSON.parse(context.secrets.open(earlier.response, sealedFor));
    }
    const body = await work(transaction, actor);
    const response = context.secrets.seal(JSON.stringify(body), sealedFor);
    await transaction.updateTable('idempotency_keys').set({ response }).where('org_id', '=', orgId).where('key', '=', key).execute();
    return body;
  });
}

/** Undefined when the key is ours now. Two requests at once: the second waits here until the first has committed. */
export async function takeKey(
  transaction: Db,
  orgId: number,
  key: string,
  fingerprint: string,
  at: Date,
  response: string | null = null,
): Promise<{ fingerprint: string; response: string | null } | undefined> {
  const expired = new Date(at.getTime() - 24 * 3_600_000);
  await transaction
    .deleteFrom('idempotency_keys')
    .where('org_id', '=', orgId)
    .where('key', '=', key)
    .where('created_at', '<', expired)
    .execute();
  const taken = await transaction
    .insertInto('idempotency_keys')
    .values({ org_id: orgId, key, fingerprint, response, created_at: at })
    .onConflict((conflict) => conflict.columns(['org_id', 'key']).doNothing())
    .returning('key')
    .executeTakeFirst();
  if (taken !== undefined) return undefined;
  return transaction
    .selectFrom('idempotency_keys')
    .select(['fingerprint', 'response'])
    .where('org_id', '=', orgId)
    .where('key', '=', key)
    .executeTakeFirst();
}
