import type { FastifyReply, FastifyRequest } from 'fastify';
import { giveBackKey, replaceResponse, takeKey } from '../../../accounts/idempotency-keys.ts';
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
  const own = sealAnswer(context, requestKey, chosen);
  const { earlier } = await takeKey(db, requestKey, { response: own });
  if (earlier?.response === null) throw keyReused();
  const kept: Kept<Body> = earlier === undefined ? chosen : openAnswer(context, requestKey, earlier.response);
  if (kept.body === undefined && earlier !== undefined) {
    // Sealed anew, it is another text: if the first request is refused now, it sees that it must not give the key back.
    const isShared = await replaceResponse(db, requestKey, earlier.response, sealAnswer(context, requestKey, kept));
    if (!isShared) return createSessionOnce(context, request, reply, wantedId, create);
  }
  if (earlier !== undefined) sayReplayed(reply);
  if (kept.body !== undefined) return kept.body;
  const body = await create(kept.sessionId).catch(async (error: unknown) => {
    // Nothing was created: another request may use the key, unless a repetition of this one is at it.
    if (earlier === undefined && error instanceof ServiceError) await giveBackKey(db, requestKey, own);
    throw error;
  });
  await keepAnswer(context, db, requestKey, { sessionId: kept.sessionId, body });
  return body;
}
