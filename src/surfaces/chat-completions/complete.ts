import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import type { Context } from '../../context.ts';
import { notFound, ServiceError } from '../../errors.ts';
import { newId } from '../../ids.ts';
import { fieldOf } from '../../json.ts';
import { noUsage } from '../../session/usage.ts';
import { collectTurn } from '../../turn/collect.ts';
import { type WatchableTurn, watchTurn } from '../../turn/watch.ts';
import { adapterFailureBody } from '../shared/adapters/errors.ts';
import { tellInstructions } from '../shared/adapters/instructions.ts';
import { type DropSession, sendTurn } from '../shared/adapters/send-turn.ts';
import { type AdapterSession, dropWhenEnded, forget, openForTurn, startTurnIn, turnSession } from '../shared/adapters/session.ts';
import { createSessionOnce } from '../shared/once/create-session.ts';
import { findEarlierTurn, findRetriedTurn } from '../shared/once/start-turn.ts';
import { agentOf } from '../shared/path.ts';
import { sendLongJson } from '../shared/streams/long-json.ts';
import { sendEvents } from '../shared/streams/sse.ts';
import { ChatProjector, completionOf } from './project.ts';
import { readMessages } from './read-messages.ts';
import type { chatBody } from './schemas.ts';

interface ChatCall {
  context: Context;
  request: FastifyRequest;
  reply: FastifyReply;
  /** The model that the answer names. */
  model: string;
  /** Whether the caller asked for a stream. */
  live: boolean;
}

/** Runs the last user message and answers in the chat-completions format. It has no approvals, so a tool that needs one is denied. */
export async function complete(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  body: Static<typeof chatBody>,
): Promise<FastifyReply> {
  const model = body.model ?? agentOf(request).slug;
  const live = body.stream ?? false;
  const call = { context, request, reply, model, live };
  const { session_id: named, ...metadata } = body.metadata ?? {};
  if (named !== undefined && named !== null && typeof named !== 'string')
    throw new ServiceError('invalid', 'metadata.session_id: must be a string');
  const sessionId = sessionNamed(request, body);
  const said = readMessages(body.messages ?? [], sessionId === undefined);
  const setting = sessionId === undefined ? undefined : await context.settings.of(agentOf(request).orgId, sessionId);
  const goesOn = setting && turnSession(setting);
  const wanted = { surface: 'chat' as const, metadata, stored: body.store ?? true };
  const open = async (newSessionId?: string) => {
    if (sessionId !== undefined && goesOn === undefined) throw notFound();
    return openForTurn(context, request, reply, goesOn, { ...wanted, newSessionId });
  };
  if (said === undefined) return answerNothing(call, open);
  const earlier = await (goesOn === undefined ? findEarlierTurn(context, request, reply, live) : findRetriedTurn(context, request, live));
  if (earlier !== undefined) {
    reply.header('x-svc-session', earlier.sessionId);
    return answer(call, earlier, undefined);
  }
  const opened = await open();
  const { told, mark } = await tellInstructions(context, opened, said.system);
  const earlierMessages = [...told, ...said.context];
  const message = { text: said.text, unattended: true, ...(earlierMessages.length === 0 ? {} : { context: earlierMessages }), ...mark };
  const turn = await startTurnIn(context, request, reply, opened, { shows: live ? 'live' : 'whole', message });
  const isOwn = turn.sessionId === opened.session.id;
  const drop = opened.session.stored || !isOwn ? undefined : () => dropWhenEnded(context, request, opened.session, turn.turnId);
  return answer(call, turn, drop);
}

/** The id of the session that the call continues. The body may not be validated yet. */
export function sessionNamed(request: FastifyRequest, body: unknown): string | undefined {
  const header = request.headers['x-svc-session'];
  if (typeof header === 'string') return header;
  const named = fieldOf(fieldOf(body, 'metadata'), 'session_id');
  return typeof named === 'string' ? named : undefined;
}

async function answer({ context, reply, model, live }: ChatCall, turn: WatchableTurn, drop: DropSession): Promise<FastifyReply> {
  if (live) return sendTurn(context, reply, { turn, projector: new ChatProjector(turn.turnId, model), drop });
  const completion = collectTurn(watchTurn(context.log, turn)).then(async (outcome) => {
    await drop?.();
    return completionOf(turn.turnId, model, outcome);
  });
  return sendLongJson(reply, completion, adapterFailureBody);
}

/** Spec 4.10: without a user message no turn runs, and the answer is empty. */
async function answerNothing(call: ChatCall, open: (newSessionId?: string) => Promise<AdapterSession>): Promise<FastifyReply> {
  const { context, request, reply, model, live } = call;
  const { sessionId, turnId } = await createSessionOnce(context, request, reply, undefined, async (chosen = newId('ses_')) => {
    const { session } = await open(chosen);
    if (!session.stored) await forget(context, session);
    // Derived from the session id that is stored under the Idempotency-Key, so that two copies of the request get the same answer.
    return { sessionId: session.id, turnId: chosen.replace('ses_', 'turn_') };
  });
  reply.header('x-svc-session', sessionId);
  if (!live) return reply.send(completionOf(turnId, model, { text: '', usage: noUsage, ended: undefined, failed: undefined }));
  await sendEvents(reply, () => emptyStream(turnId, model));
  return reply;
}

async function* emptyStream(turnId: string, model: string): AsyncGenerator<string> {
  yield new ChatProjector(turnId, model).empty();
}
