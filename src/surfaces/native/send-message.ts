import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import type { Context } from '../../context.ts';
import { collectTurn } from '../../turn/collect.ts';
import { type WatchableTurn, watchTurn } from '../../turn/watch.ts';
import { failureBody } from '../shared/errors.ts';
import { findRetriedTurn, startTurn } from '../shared/once/start-turn.ts';
import { signalOfLeaving } from '../shared/streams/client-left.ts';
import { sendLongJson } from '../shared/streams/long-json.ts';
import { sendEvents } from '../shared/streams/sse.ts';
import { messageBodyOf } from './answer.ts';
import { closingFrame, frameText, NativeProjector } from './project.ts';
import type { messageBody } from './schemas.ts';

/** Runs a turn and responds with its stream, or with its outcome. The turn continues if the client disconnects. */
export async function sendMessage(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  sessionId: string,
  body: Static<typeof messageBody>,
): Promise<FastifyReply> {
  const { text, agent, participant_name, participant_type, thinking = false, stream = false } = body;
  const turn =
    (await findRetriedTurn(context, request, stream)) ??
    (await startTurn(context, request, reply, sessionId, {
      shows: stream ? 'live' : 'whole',
      message: {
        text,
        ...(agent === undefined ? {} : { agent }),
        ...(thinking ? { thinking } : {}),
        ...(participant_name === undefined ? {} : { participantName: participant_name }),
        ...(participant_type === undefined ? {} : { participantType: participant_type }),
      },
    }));
  if (!stream) {
    const answer = collectTurn(watchTurn(context.log, turn, signalOfLeaving(reply))).then((outcome) => messageBodyOf(sessionId, outcome));
    return sendLongJson(reply, answer, failureBody);
  }
  const projector = new NativeProjector();
  const frames = (signal: AbortSignal) => turnFrames(context, turn, projector, signal);
  await sendEvents(reply, frames, (reason) => (projector.ended ? '' : frameText(closingFrame(reason), turn.sessionId)));
  return reply;
}

async function* turnFrames(context: Context, turn: WatchableTurn, projector: NativeProjector, signal: AbortSignal): AsyncGenerator<string> {
  for await (const updates of watchTurn(context.log, turn, signal)) {
    let text = '';
    for (const update of updates) for (const frame of projector.project(update)) text += frameText(frame, turn.sessionId);
    yield text;
  }
}
