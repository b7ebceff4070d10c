import type { FastifyReply, FastifyRequest } from 'fastify';
import { giveBackKey, takeKey } from '../../../accounts/idempotency-keys.ts';
import type { Context } from '../../../context.ts';
import { keyReused, ServiceError } from '../../../errors.ts';
import { newId } from '../../../ids.ts';
import { keepAnswer, openAnswer, requestKey, sayReplayed, sealAnswer } from './idempotency.ts';

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
  const own = requestKey(request);
  if (own === undefined) return create(wantedId);
  const { db } = context.database;
  const chosen: Kept<Body> = { sessionId: wantedId ?? newId('ses_') };
  const earlier = await takeKey(db, own, context.clock.now(), { response: sealAnswer(context, own, chosen) });
  if (earlier?.response === null) throw keyReused();
  const kept: Kept<Body> = earlier?.response == null ? chosen : openAnswer(context, own, earlier.response);
  if (earlier !== undefined) sayReplayed(reply);
  if (kept.body !== undefined) return kept.body;
  const body = await create(kept.sessionId).catch(async (error: unknown) => {
    // Nothing was made: another request may have the key.
    if (earlier === undefined && error instanceof ServiceError) await giveBackKey(db, own);
    throw error;
  });
  await keepAnswer(context, db, own, { sessionId: kept.sessionId, body });
  return body;
}
