import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '../../context.ts';
import type { Db } from '../../database/database.ts';
import { keyReused } from '../../errors.ts';
import {
  idempotencyKey,
  type KeptKey,
  keepAnswer,
  operatorFingerprintOf,
  readKey,
  sayReplayed,
  sealedFor,
  takeKey,
} from '../shared/idempotency.ts';

/** What the operator makes for an org is made once under an Idempotency-Key: the answer is kept with it, encrypted, and given again. */
export async function makeOnce<Body>(
  context: Context,
  transaction: Db,
  orgId: number,
  request: FastifyRequest,
  reply: FastifyReply,
  work: () => Promise<Body>,
): Promise<Body> {
  const key = operatorsKey(request);
  if (key === undefined) return work();
  const earlier = await takeKey(transaction, orgId, key, operatorFingerprintOf(request), context.clock.now());
  if (earlier !== undefined) return answerAgain(context, orgId, key, earlier, request, reply);
  const body = await work();
  await keepAnswer(transaction, orgId, key, context.secrets.seal(JSON.stringify(body), sealedFor(orgId, key)));
  return body;
}

/** The answer with which this request made the org that exists by now. */
export async function findAnswer(context: Context, slug: string, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
  const key = operatorsKey(request);
  const organization = key === undefined ? undefined : await context.directory.organizationBySlug(slug);
  if (key === undefined || organization === undefined) return undefined;
  const earlier = await readKey(context.database.db, organization.id, key);
  return earlier === undefined ? undefined : answerAgain(context, organization.id, key, earlier, request, reply);
}

function answerAgain(context: Context, orgId: number, key: string, earlier: KeptKey, request: FastifyRequest, reply: FastifyReply) {
  if (earlier.fingerprint !== operatorFingerprintOf(request) || earlier.response === null) throw keyReused();
  sayReplayed(reply);
  return JSON.parse(context.secrets.open(earlier.response, sealedFor(orgId, key)));
}

/** Beside the keys of the org, and never one of them. */
function operatorsKey(request: FastifyRequest): string | undefined {
  const key = idempotencyKey(request);
  return key === undefined ? undefined : `operator ${key}`;
}
