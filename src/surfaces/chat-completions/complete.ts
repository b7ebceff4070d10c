import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import type { Context } from '../../context.ts';
import { notFound, ServiceError } from '../../errors.ts';
import { newId } from '../../ids.ts';
import { noUsage } from '../../session/usage.ts';
import { fieldOf } from '../../text/json.ts';
import { collectTurn } from '../../turn/collect.ts';
import { type WatchableTurn, watchTurn } from '../../turn/watch.ts';
import { adapterFailureBody } from '../shared/adapters/errors.ts';
import { contextFieldsOf } from '../shared/adapters/message-input.ts';
import { sendTurn } from '../shared/adapters/send-turn.ts';
import {
  type AdapterSession,
  type DropSession,
  dropAfter,
  dropUnlessUsed,
  findRepeatedTurn,
  openNamedOrNew,
  startTurnIn,
  turnSession,
} from '../shared/adapters/session.ts';
import { createSessionOnce } from '../shared/once/create-session.ts';
import { agentOf } from '../shared/path.ts';
import { signalOfLeaving } from '../shared/streams/client-left.ts';
import { sendLongJson } from '../shared/streams/long-json.ts';
import { sendEvents } from '../shared/streams/sse.ts';
import { ChatProjector, completionOf } from './project.ts';
import { readMessages } from './read-messages.ts';
import type { chatBody } from './schemas.ts';

interface ChatCall {
  context: Context;
  request: FastifyRequest;
  reply: FastifyReply;
  /** The model that the response names. */
  model: string;
  /** Whether the request asked for a stream. */
  live: boolean;
  /** Whether the stream has a chunk with the usage. Its `choices` are empty, which not every program expects. */
  showsUsage: boolean;
}

/** Runs the last user message. This wire has no way to ask for an approval: a tool call that would need one is denied. */
export async function complete(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  body: Static<typeof chatBody>,
): Promise<FastifyReply> {
  const model = body.model ?? agentOf(request).slug;
  const live = body.stream ?? false;
  const showsUsage = fieldOf(body.stream_options, 'include_usage') !== false;
  const call = { context, request, reply, model, live, showsUsage };
  const { session_id, ...metadata } = body.metadata ?? {};
  if (session_id !== undefined && session_id !== null && typeof session_id !== 'string')
    throw new ServiceError('invalid', 'metadata.session_id: must be a string');
  const sessionId = namedSessionId(request, body);
  const input = readMessages(body.messages ?? [], sessionId === undefined);
  const setting = sessionId === undefined ? undefined : await context.settings.of(agentOf(request).orgId, sessionId);
  const named = setting && turnSession(setting);
  const open = async (newSessionId?: string) => {
    // Deleted after the route's hook found it, or after the turn of an earlier copy of this request.
    if (sessionId !== undefined && named === undefined) throw notFound();
    const wanted = { surface: 'chat' as const, metadata, stored: body.store ?? true, runsTurn: input !== undefined, newSessionId };
    return openNamedOrNew(context, request, reply, named, wanted);
  };
  if (input === undefined) return answerNothing(call, open);
  const repeated = await findRepeatedTurn(context, request, reply, named, live);
  if (repeated !== undefined) return answer(call, repeated, undefined);
  const opened = await open();
  const message = { text: input.text, unattended: true, ...(await contextFieldsOf(context, opened, input)) };
  const turn = await startTurnIn(context, request, reply, opened, { shows: live ? 'live' : 'whole', message });
  return answer(call, turn, dropAfter(context, request, opened.session, turn));
}

/** The session that the request continues. The body may not be validated yet. */
export function namedSessionId(request: FastifyRequest, body: unknown): string | undefined {
  const header = request.headers['x-svc-session'];
  if (typeof header === 'string') return header;
  const named = fieldOf(fieldOf(body, 'metadata'), 'session_id');
  return typeof named === 'string' ? named : undefined;
}

async function answer(call: ChatCall, turn: WatchableTurn, drop: DropSession): Promise<FastifyReply> {
  const { context, reply, model, live, showsUsage } = call;
  if (live) return sendTurn(context, reply, { turn, projector: new ChatProjector(turn.turnId, model, showsUsage), drop });
  // To drop a session, somebody has to wait for the end of its turn.
  const left = drop === undefined ? signalOfLeaving(reply) : undefined;
  const completion = collectTurn(watchTurn(context.log, turn, left)).then(async (outcome) => {
    await drop?.();
    return completionOf(turn.turnId, model, outcome);
  });
  return sendLongJson(reply, completion, adapterFailureBody);
}

/** Spec 4.10: without a message nothing runs, and the completion is empty. */
async function answerNothing(call: ChatCall, open: (newSessionId?: string) => Promise<AdapterSession>): Promise<FastifyReply> {
  const { context, request, reply, model, live, showsUsage } = call;
  const { sessionId, turnId } = await createSessionOnce(context, request, reply, undefined, async (chosen = newId('ses_')) => {
    const { session } = await open(chosen);
    if (!session.stored) await dropUnlessUsed(context, session);
    // Made from the id that is kept under an Idempotency-Key, so that a repeated request gets the same completion.
    return { sessionId: session.id, turnId: chosen.replace('ses_', 'turn_') };
  });
  reply.header('x-svc-session', sessionId);
  if (!live) return reply.send(completionOf(turnId, model, { text: '', usage: noUsage, ended: undefined, failed: undefined }));
  await sendEvents(reply, async function* () {
    yield new ChatProjector(turnId, model, showsUsage).empty();
  });
  return reply;
}
