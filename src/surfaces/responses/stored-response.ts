import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '../../context.ts';
import { deleteResponse } from '../../session/deleted-responses.ts';
import { readTurn, type WatchableTurn } from '../../turn/watch.ts';
import { sendTurn } from '../shared/adapters/send-turn.ts';
import { agentOf } from '../shared/path.ts';
import { ResponseAnswer } from './answer.ts';
import { type FoundResponse, findResponse } from './named-session.ts';
import { ResponseProjector } from './project.ts';

/** Responds with an earlier response, read from the log: as it is now, or as its stream, which continues while the turn runs. */
export async function fetchResponse(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  { place, session, echo }: FoundResponse,
  stream: { startingAfter: number } | undefined,
): Promise<FastifyReply> {
  reply.header('x-svc-session', session.id);
  const turn: WatchableTurn = { ...(await context.turns.subscribeTo(place.turnId, stream !== undefined)), restAfter: place.after };
  try {
    const answer = new ResponseAnswer(place, agentOf(request).slug, echo);
    if (stream === undefined) {
      for await (const events of readTurn(context.log, turn)) for (const event of events) answer.apply(event);
      return reply.send(answer.body());
    }
    const projector = new ResponseProjector(answer, stream.startingAfter);
    return await sendTurn(context, reply, { turn, projector, drop: undefined, opening: projector.begin() });
  } finally {
    turn.subscription.close();
  }
}

/** Deletes the response. The session keeps what was said, and is deleted with the last of its responses. */
export async function removeResponse(context: Context, request: FastifyRequest, reply: FastifyReply, responseId: string) {
  const { place, session } = await findResponse(context, request, responseId);
  reply.header('x-svc-session', session.id);
  const isDropped = await deleteResponse(context.database.db, session.orgId, session.id, place.turnId, responseId);
  if (isDropped) context.feed.drop(session.id);
  return { id: responseId, object: 'response' as const, deleted: true as const };
}
