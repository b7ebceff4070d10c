import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Actor } from '../../audit/record.ts';
import type { Context } from '../../context.ts';
import type { Db } from '../../database/database.ts';
import { notFound } from '../../errors.ts';
import { actorOf } from './caller/actor.ts';
import { makeUnderKey, requestKeyOf } from './once/idempotency.ts';
import { checkAgainIfLongAgo } from './server/check-again.ts';

type Work<Result> = (transaction: Db, actor: Actor) => Promise<Result>;

/**
 * Changes something of the caller's org in a transaction, in which `work` also records the audit event, and tells the other
 * processes to forget what they hold of the org.
 */
export function change<Result>(context: Context, request: FastifyRequest, work: Work<Result>): Promise<Result> {
  const actor = actorOf(context, request);
  return context.directory.change(actor.orgId, (transaction) => work(transaction, actor));
}

/** Deletes something of the caller's org: 204, or 404 if `work` says that it is not there. */
export async function remove(context: Context, request: FastifyRequest, reply: FastifyReply, work: Work<boolean>): Promise<FastifyReply> {
  if (!(await change(context, request, work))) throw notFound();
  return reply.code(204).send();
}

/** A change whose response is what it made. With an Idempotency-Key it is made once. */
export async function changeOnce<Body>(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  status: 200 | 201 | 202,
  work: Work<Body>,
): Promise<Body> {
  reply.code(status);
  // Names in the body may have been looked up first: dozens of them, which their owner lets take seconds each.
  await checkAgainIfLongAgo(request, reply);
  return change(context, request, once(context, request, reply, work));
}

/** The same for what no process holds in memory: the others need not forget anything. */
export async function recordOnce<Body>(context: Context, request: FastifyRequest, reply: FastifyReply, work: Work<Body>): Promise<Body> {
  const actor = actorOf(context, request);
  const record = once(context, request, reply, work);
  return context.database.db.transaction().execute((transaction) => record(transaction, actor));
}

function once<Body>(context: Context, request: FastifyRequest, reply: FastifyReply, work: Work<Body>): Work<Body> {
  const requestKey = requestKeyOf(request);
  if (requestKey === undefined) return work;
  return (transaction, actor) => makeUnderKey(context, transaction, reply, requestKey, () => work(transaction, actor));
}
