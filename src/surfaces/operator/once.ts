import type { FastifyReply, FastifyRequest } from 'fastify';
import type { RequestKey } from '../../accounts/idempotency-keys.ts';
import type { Context } from '../../context.ts';
import type { Db } from '../../database/database.ts';
import { operatorFingerprintOf } from '../shared/once/fingerprints.ts';
import { idempotencyKey, makeUnderKey } from '../shared/once/idempotency.ts';

/** In place of an org's id, for what belongs to no org yet. The ids of orgs begin at 1. */
export const noOrganization = 0;

/** Does the operator's work, for an org or for none, once per Idempotency-Key. */
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

/** Stored with the org's own keys. A header cannot contain a line break, so it never equals one of them. */
function operatorsKey(request: FastifyRequest, orgId: number): RequestKey | undefined {
  const key = idempotencyKey(request);
  return key === undefined ? undefined : { orgId, key: `operator\n${key}`, fingerprint: operatorFingerprintOf(request) };
}
