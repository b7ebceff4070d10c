import type { FastifyReply, FastifyRequest } from 'fastify';
import { findKey, type RequestKey } from '../../accounts/idempotency-keys.ts';
import type { Context } from '../../context.ts';
import type { Db } from '../../database/database.ts';
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
  const own = operatorsKey(request, orgId);
  return own === undefined ? work() : makeUnderKey(context, transaction, reply, own, work);
}

/** The answer with which this request made the org that exists by now. */
export async function findAnswer(context: Context, slug: string, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
  const organization = await context.directory.organizationBySlug(slug);
  const own = organization && operatorsKey(request, organization.id);
  const earlier = own && (await findKey(context.database.db, own));
  return own && earlier && answerAgain(context, reply, own, earlier);
}

/** Kept among the keys of the org. A header cannot hold a line break, so it is equal to none of the org's own. */
function operatorsKey(request: FastifyRequest, orgId: number): RequestKey | undefined {
  const key = idempotencyKey(request);
  return key === undefined ? undefined : { orgId, key: `operator\n${key}`, fingerprint: operatorFingerprintOf(request) };
}
