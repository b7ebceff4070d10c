import type { FastifyReply } from 'fastify';
import type { Context } from '../../../context.ts';
import type { SessionUpdate } from '../../../session/events.ts';
import { type WatchableTurn, watchTurn } from '../../../turn/watch.ts';
import type { ClosingReason } from '../streams/open-streams.ts';
import { sendEvents } from '../streams/sse.ts';
import type { DropSession } from './session.ts';

/** Turns the updates of a turn into the text of its stream. */
export interface TurnProjector {
  /** Whether the last frame has been made. */
  readonly ended: boolean;
  project(update: SessionUpdate): string;
  /** The last frames when the server ends the stream; empty if the turn has ended. */
  close(reason: ClosingReason): string;
}

interface SentTurn {
  turn: WatchableTurn;
  projector: TurnProjector;
  drop: DropSession;
  /** What the stream begins with, ahead of the turn's updates. */
  opening?: string;
}

/** Responds with the stream of a turn. The turn continues if the client disconnects. */
export async function sendTurn(context: Context, reply: FastifyReply, sent: SentTurn): Promise<FastifyReply> {
  const frames = (signal: AbortSignal) => projectedTurn(context, sent, signal);
  await sendEvents(reply, frames, (reason) => sent.projector.close(reason));
  return reply;
}

/** A session that is not kept is dropped before the client sees the end of its turn. */
async function* projectedTurn(
  { log }: Context,
  { turn, projector, drop, opening = '' }: SentTurn,
  signal: AbortSignal,
): AsyncGenerator<string> {
  let dropping: Promise<void> | undefined;
  const dropOnce = () => {
    dropping ??= drop?.();
    return dropping;
  };
  try {
    yield opening;
    for await (const updates of watchTurn(log, turn, signal)) {
      let text = '';
      for (const update of updates) text += projector.project(update);
      if (projector.ended) await dropOnce();
      yield text;
    }
  } finally {
    // If the client left early, the session is dropped when the turn has ended.
    void dropOnce();
    turn.subscription.close();
  }
}
