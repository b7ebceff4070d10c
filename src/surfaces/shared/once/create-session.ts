import type { FastifyReply, FastifyRequest } from 'fastify';
import { giveBackUnsharedKey, shareKey, takeKey } from '../../../accounts/idempotency-keys.ts';
import type { Context } from '../../../context.ts';
import { keyReused, ServiceError } from '../../../errors.ts';
import { newId } from '../../../ids.ts';
import { keepAnswer, openAnswer, requestKeyOf, sayReplayed, sealAnswer } from './idempotency.ts';

/** What is kept under a key: the id of its session, which may not exist yet, and the answer to the first request once there is one. */
interface Kept<Body> {
  sessionId: string;
  body?: Body;
}

/**
 * Creates or resumes a session. With an Idempotency-Key, the session's id is chosen and kept before the session is created, so
 * that a repetition, at the same moment or after a crash, gets the same session and the same answer.
 */
export async function createSessionOnce<Body>(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  wantedId: string | undefined,
  create: (sessionId: string | undefined) => Promise<Body>,
): Promise<Body> {
  const requestKey = requestKeyOf(request);
  if (requestKey === undefined) return create(wantedId);
  const { db } = context.database;
  const chosen: Kept<Body> = { sessionId: wantedId ?? newId('ses_') };
  const { earlier, takenAt } = await takeKey(db, requestKey, { response: sealAnswer(context, requestKey, chosen) });
  if (earlier?.response === null) throw keyReused();
  const kept: Kept<Body> = earlier === undefined ? chosen : openAnswer(context, requestKey, earlier.response);
  const isUnanswered = kept.body === undefined && earlier !== undefined;
  if (isUnanswered && !(await shareKey(db, { ...requestKey, takenAt })))
    return createSessionOnce(context, request, reply, wantedId, create);
  if (earlier !== undefined) sayReplayed(reply);
  if (kept.body !== undefined) return kept.body;
  const body = await create(kept.sessionId).catch(async (error: unknown) => {
    // Nothing was created: another request may use the key, unless a repetition of this one has created it, or is at work on it.
    if (earlier === undefined && error instanceof ServiceError) await giveBackUnsharedKey(db, requestKey);
    throw error;
  });
  await keepAnswer(context, db, requestKey, { sessionId: kept.sessionId, body });
  return body;
}
