import type { FastifyReply, FastifyRequest } from 'fastify';
import { readKey } from '../../accounts/idempotency-keys.ts';
import type { Context } from '../../context.ts';
import type { Db } from '../../database/database.ts';
import { keyReused } from '../../errors.ts';
import { operatorFingerprintOf } from '../shared/once/fingerprints.ts';
import { answerAgain, idempotencyKey, makeUnderKey } from '../shared/once/idempotency.ts';

/** What the operator makes for an org is made once under an Idempotency-Key. */
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
  return makeUnderKey(context, transaction, reply, { orgId, key, fingerprint: operatorFingerprintOf(request) }, work);
}

/** The answer with which this request made the org that exists by now. */
export async function findAnswer(context: Context, slug: string, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
  const key = operatorsKey(request);
  const organization = key === undefined ? undefined : await context.directory.organizationBySlug(slug);
  if (key === undefined || organization === undefined) return undefined;
  const earlier = await readKey(context.database.db, organization.id, key);
  if (earlier === undefined) return undefined;
  if (earlier.fingerprint !== operatorFingerprintOf(request)) throw keyReused();
  return answerAgain(context, reply, organization.id, key, earlier);
}

/** Kept among the keys of the org. A header cannot hold a line break, so it is equal to none of the org's own. */
function operatorsKey(request: FastifyRequest): string | undefined {
  const key = idempotencyKey(request);
  return key === undefined ? undefined : `operator\n${key}`;
}
