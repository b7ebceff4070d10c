import type { FastifyReply, FastifyRequest } from 'fastify';
import { findKey, type RequestKey } from '../../accounts/idempotency-keys.ts';
import type { Context } from '../../context.ts';
import type { Db } from '../../database/database.ts';
import { operatorFingerprintOf } from '../shared/once/fingerprints.ts';
import { answerAgain, idempotencyKey, makeUnderKey } from '../shared/once/idempotency.ts';

/** Does the operator's work for an org once per Idempotency-Key. */
export async function makeOnce<Body>(
  context: Context,
  transaction: Db,
  orgId: number,
  request: FastifyRequest,
  reply: FastifyReply,
  work: () => Promise<Body>,
): Promise<Body> {
  const key = operatorsKey(request, orgId);
  return key === undefined ? work() : makeUnderKey(context, transaction, reply, key, work);
}

/** The stored answer, if an earlier copy of this request created the org. */
export async function findAnswer(context: Context, slug: string, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
  const organization = await context.directory.organizationBySlug(slug);
  const key = organization && operatorsKey(request, organization.id);
  const earlier = key && (await findKey(context.database.db, key));
  return key && earlier && answerAgain(context, reply, key, earlier);
}

/** Stored with the org's own keys. A header cannot contain a line break, so it never equals one of them. */
function operatorsKey(request: FastifyRequest, orgId: number): RequestKey | undefined {
  const key = idempotencyKey(request);
  return key === undefined ? undefined : { orgId, key: `operator\n${key}`, fingerprint: operatorFingerprintOf(request) };
}
