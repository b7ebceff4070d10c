import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '../../context.ts';
import { ServiceError } from '../../errors.ts';
import { newId } from '../../ids.ts';
import { principalOf } from './authenticate.ts';
import { takeKey } from './change.ts';
import { forgetKey, idempotencyKey, keyFingerprintOf, keyReused } from './start-turn.ts';

/** What is kept under a key: the id that its session has or will have, and, once there is one, the first answer. */
interface Kept<Body> {
  sessionId: string;
  body?: Body;
}

/**
 * Creates or resumes a session. With an Idempotency-Key the session's id is chosen and kept before the session is made, so
 * that a repetition, at the same moment or after a crash, comes to the same one, and gets the first answer again.
 */
export async function createSessionOnce<Body>(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  wantedId: string | undefined,
  create: (sessionId: string | undefined) => Promise<Body>,
): Promise<Body> {
  const key = idempotencyKey(request);
  if (key === undefined) return create(wantedId);
  const { db } = context.database;
  const { id: orgId } = principalOf(request).organization;
  const sealedFor = `org ${orgId} idempotency ${key}`;
  const seal = (kept: Kept<Body>) => context.secrets.seal(JSON.stringify(kept), sealedFor);
  const fingerprint = keyFingerprintOf(request);
  const chosen: Kept<Body> = { sessionId: wantedId ?? newId('ses_') };
  const earlier = await takeKey(db, orgId, key, fingerprint, context.clock.now(), seal(chosen));
  if (earlier !== undefined && (earlier.fingerprint !== fingerprint || earlier.response === null)) throw keyReused();
  const kept: Kept<Body> = earlier?.response == null ? chosen : JSON.parse(context.secrets.open(earlier.response, sealedFor));
  if (earlier !== undefined) reply.header('idempotent-replayed', 'true');
  if (kept.body !== undefined) return kept.body;
  const body = await create(kept.sessionId).catch(async (error: unknown) => {
    // Nothing was made: another request may have the key.
    if (earlier === undefined && error instanceof ServiceError) await forgetKey(context, request);
    throw error;
  });
  const response = seal({ sessionId: kept.sessionId, body });
  await db.updateTable('idempotency_keys').set({ response }).where('org_id', '=', orgId).where('key', '=', key).execute();
  return body;
}
