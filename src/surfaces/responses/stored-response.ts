import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '../../context.ts';
import { deleteResponse } from '../../session/deleted-responses.ts';
import { readTurn, type WatchableTurn, watchTurn } from '../../turn/watch.ts';
import { sendTurn } from '../shared/adapters/send-turn.ts';
import { agentOf } from '../shared/path.ts';
import { signalOfLeaving } from '../shared/streams/client-left.ts';
import { sendLongJson } from '../shared/streams/long-json.ts';
import { applyAll, ResponseAnswer } from './answer.ts';
import type { FoundResponse } from './named-session.ts';
import { ResponseProjector } from './project.ts';
import type { ResponsePlace } from './response-ids.ts';

/** Responds with an earlier response, read from the log: as it is now, or as its stream, which continues while the turn runs. */
export async function fetchResponse(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  found: FoundResponse,
  stream: { startingAfter: number } | undefined,
): Promise<FastifyReply> {
  const { place, session, echo } = found;
  reply.header('x-svc-session', session.id);
  if (stream === undefined) return reply.send((await readResponse(context, request, found)).body());
  const turn = await watchPart(context, place, true);
  const projector = new ResponseProjector(new ResponseAnswer(place, agentOf(request).slug, echo), stream.startingAfter);
  return sendTurn(context, reply, { turn, projector, drop: undefined, opening: projector.begin() });
}

/** Stops the turn of a response that is in progress, and responds with the response once it has ended. One that waits has not yet. */
export async function cancelResponse(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  found: FoundResponse,
): Promise<FastifyReply> {
  const { place, session, echo } = found;
  reply.header('x-svc-session', session.id);
  const known = await readResponse(context, request, found);
  // The turn may have gone on after the end of this response, once an approval was given: that is another response.
  if (known.status !== 'in_progress') return reply.send(known.body());
  const turn = await watchPart(context, place, false);
  try {
    if (await context.turns.cancel(session.orgId, session.id, place.turnId)) return reply.send(known.body());
    const answer = new ResponseAnswer(place, agentOf(request).slug, echo);
    const ended = applyAll(answer, watchTurn(context.log, turn, signalOfLeaving(reply))).then(() => answer.body());
    return await sendLongJson(reply, ended, (error) => answer.lateFailure(error));
  } finally {
    turn.subscription.close();
  }
}

/** The response as far as it is in the log. */
async function readResponse(context: Context, request: FastifyRequest, { place, echo }: FoundResponse): Promise<ResponseAnswer> {
  const answer = new ResponseAnswer(place, agentOf(request).slug, echo);
  const turn = await watchPart(context, place, false);
  for await (const events of readTurn(context.log, turn)) for (const event of events) answer.apply(event);
  return answer;
}

/** The turn of a response, to be watched to the end of the response. */
async function watchPart(context: Context, { turnId, after }: ResponsePlace, live: boolean): Promise<WatchableTurn> {
  return { ...(await context.turns.subscribeTo(turnId, live)), restAfter: after };
}

/** Deletes the response. The session keeps what was said, and is deleted with the last of its responses. */
export async function removeResponse(context: Context, reply: FastifyReply, { place, session }: FoundResponse) {
  const { responseId } = place;
  reply.header('x-svc-session', session.id);
  const isDropped = await deleteResponse(context.database.db, session.orgId, session.id, place.turnId, responseId);
  if (isDropped) context.feed.drop(session.id);
  return { id: responseId, object: 'response' as const, deleted: true as const };
}
