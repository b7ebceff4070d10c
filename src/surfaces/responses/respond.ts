import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import type { Context } from '../../context.ts';
import { notFound } from '../../errors.ts';
import type { RequestEcho } from '../../session/events.ts';
import { type WatchableTurn, watchTurn } from '../../turn/watch.ts';
import { adapterFailureBody } from '../shared/adapters/errors.ts';
import { type SystemTexts, tellInstructions } from '../shared/adapters/instructions.ts';
import { type DropSession, sendTurn } from '../shared/adapters/send-turn.ts';
import { dropWhenEnded, openForTurn, startTurnIn, type TurnSession } from '../shared/adapters/session.ts';
import { underKey } from '../shared/once/idempotency.ts';
import { findEarlierTurn, findRetriedTurn } from '../shared/once/start-turn.ts';
import { agentOf } from '../shared/path.ts';
import { sendLongJson } from '../shared/streams/long-json.ts';
import { collectResponse, ResponseAnswer } from './answer.ts';
import type { KnownResponses } from './named-session.ts';
import { ResponseProjector } from './project.ts';
import { type ResponseInput, readInput } from './read-input.ts';
import { responsePlace } from './response-ids.ts';
import type { responseRequest } from './schemas.ts';

type Body = Static<typeof responseRequest>;

/** A request, with the session that its body continues, if it names one. */
interface ResponseCall {
  context: Context;
  request: FastifyRequest;
  reply: FastifyReply;
  body: Body;
  named: TurnSession | undefined;
}

/** Runs the input's message, or resumes the turn whose approval it answers, and answers in the responses format. */
export async function respond(call: ResponseCall, known: KnownResponses): Promise<FastifyReply> {
  const { context, request, reply, body, named } = call;
  const isWhole = typeof body.previous_response_id !== 'string' && (body.conversation ?? null) === null;
  const input = readInput(body.input, named === undefined, isWhole);
  const { turn, after, session, drop } = await (input.type === 'approval' ? resume(call, input) : begin(call, input));
  const place = responsePlace(turn.turnId, after);
  if (session !== undefined) known.note(place.responseId, session);
  const answer = new ResponseAnswer(place, agentOf(request).slug, echoOf(body));
  if (isLive(call)) {
    const projector = new ResponseProjector(answer);
    return sendTurn(context, reply, { turn, projector, drop, opening: projector.begin() });
  }
  return sendLongJson(reply, collectResponse(answer, watchTurn(context.log, turn), drop), adapterFailureBody);
}

interface Running {
  turn: WatchableTurn;
  /** Where in the turn this response begins. */
  after: number;
  session: TurnSession | undefined;
  drop: DropSession;
}

async function begin(call: ResponseCall, input: Extract<ResponseInput, { type: 'message' }>): Promise<Running> {
  const { context, request, reply, body, named } = call;
  const live = isLive(call);
  const earlier = await (named === undefined ? findEarlierTurn(context, request, reply, live) : findRetriedTurn(context, request, live));
  if (earlier !== undefined) {
    reply.header('x-svc-session', earlier.sessionId);
    return { turn: earlier, after: 0, session: undefined, drop: undefined };
  }
  const wanted = { surface: 'responses' as const, metadata: body.metadata ?? {}, stored: body.store ?? true };
  const opened = await openForTurn(context, request, reply, named, wanted);
  const { told, mark } = await tellInstructions(context, opened, withInstructions(body, input.system));
  const earlierMessages = [...told, ...input.context];
  const echo = echoOf(body);
  const message = {
    text: input.text,
    ...(earlierMessages.length === 0 ? {} : { context: earlierMessages }),
    ...mark,
    ...(Object.keys(echo).length === 0 ? {} : { echo }),
  };
  const turn = await startTurnIn(context, request, reply, opened, { shows: live ? 'live' : 'whole', message });
  // Another copy of this request started the turn in its own session, and deletes that session if it is not to be kept.
  if (turn.sessionId !== opened.session.id) return { turn, after: 0, session: undefined, drop: undefined };
  return { turn, after: 0, session: opened.session, drop: dropOf(call, opened.session, turn.turnId, 0) };
}

function withInstructions({ instructions }: Body, { all, before }: SystemTexts): SystemTexts {
  if (typeof instructions !== 'string' || instructions === '') return { all, before };
  return { all: [instructions, ...all], before: [{ role: 'system', text: instructions }, ...before] };
}

async function resume(call: ResponseCall, input: Extract<ResponseInput, { type: 'approval' }>): Promise<Running> {
  const { context, request, reply, body, named: session } = call;
  const { requestId } = input;
  if (session === undefined) return findResumed(call, requestId);
  const decision = input.approve ? 'approve_once' : 'deny';
  const turn = await underKey(context, request, reply, () =>
    context.turns.resolve(session.orgId, session.id, { requestId, decision, live: isLive(call), echo: echoOf(body) }),
  );
  return { turn, after: turn.resolvedSeq, session, drop: dropOf(call, session, turn.turnId, turn.resolvedSeq) };
}

/** For a repeated request whose session was deleted when its turn ended: the answer that it got is stored under its key. */
async function findResumed(call: ResponseCall, requestId: string): Promise<Running> {
  const { context, request, reply } = call;
  const turn = await findEarlierTurn(context, request, reply, isLive(call));
  if (turn === undefined) throw notFound();
  reply.header('x-svc-session', turn.sessionId);
  const answered = turn.kept?.find((event) => event.type === 'approval-resolved' && event.data.requestId === requestId);
  return { turn, after: answered?.seq ?? 0, session: undefined, drop: undefined };
}

function dropOf({ context, request }: ResponseCall, session: TurnSession, turnId: string, after: number): DropSession {
  return session.stored ? undefined : () => dropWhenEnded(context, request, session, turnId, after);
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
