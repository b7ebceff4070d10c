import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import type { Context } from '../../context.ts';
import { notFound } from '../../errors.ts';
import { findDecision } from '../../session/approvals.ts';
import type { ApprovalDecision, RequestEcho } from '../../session/events.ts';
import { assertMetadata } from '../../session/metadata.ts';
import { type WatchableTurn, watchTurn } from '../../turn/watch.ts';
import { contextFieldsOf, type MessageInput } from '../shared/adapters/message-input.ts';
import { sendTurn } from '../shared/adapters/send-turn.ts';
import {
  type DropSession,
  dropAfter,
  findRepeatedTurn,
  openNamedOrNew,
  startTurnIn,
  type TurnSession,
} from '../shared/adapters/session.ts';
import { principalOf } from '../shared/caller/authenticate.ts';
import { assertMayApprove } from '../shared/caller/identity.ts';
import { underKey } from '../shared/once/idempotency.ts';
import { agentOf } from '../shared/path.ts';
import { signalOfLeaving } from '../shared/streams/client-left.ts';
import { sendLongJson } from '../shared/streams/long-json.ts';
import { collectResponse, ResponseAnswer } from './answer.ts';
import type { KnownResponses } from './named-session.ts';
import { ResponseProjector } from './project.ts';
import { type ResponseInput, readInput } from './read-input.ts';
import { responsePlace } from './response-ids.ts';
import type { responseRequest } from './schemas.ts';

type Body = Static<typeof responseRequest>;

interface ResponseCall {
  context: Context;
  request: FastifyRequest;
  reply: FastifyReply;
  body: Body;
  /** The session that the request continues. */
  named: TurnSession | undefined;
}

/** Runs the message of the input, or continues the turn whose approval the input answers. */
export async function respond(call: ResponseCall, known: KnownResponses): Promise<FastifyReply> {
  const { context, request, reply, body, named } = call;
  const isWhole = typeof body.previous_response_id !== 'string' && (body.conversation ?? null) === null;
  const input = readInput(body.input, named === undefined, isWhole);
  const { turn, after, session, drop } = await (input.type === 'approval' ? continueTurn(call, input) : beginTurn(call, input));
  const place = responsePlace(turn.turnId, after);
  if (session !== undefined) known.note(place.responseId, session);
  const answer = new ResponseAnswer(place, agentOf(request).slug, echoOf(body));
  if (isLive(call)) {
    const projector = new ResponseProjector(answer);
    return sendTurn(context, reply, { turn, projector, drop, opening: projector.begin() });
  }
  // To drop a session, somebody has to wait for the end of its turn.
  const left = drop === undefined ? signalOfLeaving(reply) : undefined;
  const collected = collectResponse(answer, watchTurn(context.log, turn, left), drop);
  return sendLongJson(reply, collected, (error) => answer.lateFailure(error));
}

interface StartedResponse {
  turn: WatchableTurn;
  /** Where in the turn this response begins. */
  after: number;
  /** Undefined if an earlier copy of the request started the turn, or may have: its response may have been deleted since. */
  session: TurnSession | undefined;
  drop: DropSession;
}

async function beginTurn(call: ResponseCall, input: MessageInput): Promise<StartedResponse> {
  const { context, request, reply, body, named } = call;
  const live = isLive(call);
  const repeated = await findRepeatedTurn(context, request, reply, named, live);
  if (repeated !== undefined) return { turn: repeated, after: 0, session: undefined, drop: undefined };
  const wanted = { surface: 'responses' as const, metadata: body.metadata ?? {}, stored: body.store ?? true, runsTurn: true };
  const opened = await openNamedOrNew(context, request, reply, named, wanted);
  const { session } = opened;
  const echo = echoOf(body);
  const message = {
    text: input.text,
    ...(await contextFieldsOf(context, opened, withInstructions(body, input))),
    ...(Object.keys(echo).length === 0 ? {} : { echo }),
  };
  const turn = await startTurnIn(context, request, reply, opened, { shows: live ? 'live' : 'whole', message });
  const isOwn = !turn.replayed && turn.sessionId === session.id;
  return { turn, after: 0, session: isOwn ? session : undefined, drop: dropAfter(context, request, session, turn) };
}

function withInstructions({ instructions }: Body, input: MessageInput): MessageInput {
  if (typeof instructions !== 'string' || instructions === '') return input;
  return { ...input, repeatedSystem: [{ role: 'system', text: instructions }, ...input.repeatedSystem] };
}

async function continueTurn(call: ResponseCall, input: Extract<ResponseInput, { type: 'approval' }>): Promise<StartedResponse> {
  const { context, request, reply, body, named: session } = call;
  const { requestId } = input;
  assertMayApprove(principalOf(request));
  assertMetadata(body.metadata ?? {}, 'invalid');
  if (session === undefined) return repeatContinued(call, requestId);
  const resolve = (decision: ApprovalDecision) =>
    context.turns.resolve(session.orgId, session.id, { requestId, decision, live: isLive(call), echo: echoOf(body) });
  const approve = () =>
    resolve('approve_once').catch(async (error: unknown) => {
      // This wire has one kind of approval: one that was given elsewhere for the whole session is the same answer.
      const decision = await findDecision(context.database.db, session.orgId, requestId);
      if (decision !== 'approve_session') throw error;
      return resolve(decision);
    });
  const turn = await underKey(context, request, reply, input.approve ? approve : () => resolve('deny'));
  return { turn, after: turn.resolvedSeq, session: undefined, drop: dropAfter(context, request, session, turn, turn.resolvedSeq) };
}

/** The session was deleted when its turn ended; the response to an earlier copy of this request was kept. */
async function repeatContinued(call: ResponseCall, requestId: string): Promise<StartedResponse> {
  const { context, request, reply } = call;
  const turn = await findRepeatedTurn(context, request, reply, undefined, isLive(call));
  if (turn === undefined) throw notFound();
  const resolved = turn.kept?.find((event) => event.type === 'approval-resolved' && event.data.requestId === requestId);
  return { turn, after: resolved?.seq ?? 0, session: undefined, drop: undefined };
}

function isLive({ body }: ResponseCall): boolean {
  return body.stream ?? false;
}

function echoOf(body: Body): RequestEcho {
  const { model, previous_response_id: previousResponseId, metadata } = body;
  return {
    ...(typeof model === 'string' ? { model } : {}),
    ...(typeof previousResponseId === 'string' ? { previousResponseId } : {}),
    ...(metadata === undefined || metadata === null ? {} : { metadata }),
  };
}
