import type { FastifyReply } from 'fastify';
import type { Context } from '../../../context.ts';
import type { SessionUpdate } from '../../../session/events.ts';
import { type WatchableTurn, watchTurn } from '../../../turn/watch.ts';
import type { ClosingReason } from '../streams/open-streams.ts';
import { sendEvents } from '../streams/sse.ts';

/** What turns the updates of a turn into the text of its stream. */
export interface TurnProjector {
  /** Whether the last frame was given. */
  readonly ended: boolean;
  project(update: SessionUpdate): string;
  /** What is left to say when the server ends the stream. */
  close(reason: ClosingReason): string;
}

/** Drops a session that its caller did not want kept, and never throws; undefined for one that is. */
export type DropSession = (() => Promise<void>) | undefined;

interface SentTurn {
  turn: WatchableTurn;
  projector: TurnProjector;
  drop: DropSession;
  /** What the stream begins with, before anything of the turn. */
  opening?: string;
}

/** Answers with the stream of a turn. A client that leaves only stops the watching. */
export async function sendTurn(context: Context, reply: FastifyReply, sent: SentTurn): Promise<FastifyReply> {
  const frames = (signal: AbortSignal) => projectedTurn(context, sent, signal);
  await sendEvents(reply, frames, (reason) => sent.projector.close(reason));
  return reply;
}

/** A session that is not to be kept is gone before the client is told of its end. */
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
    // The client left; the turn goes on, and what was not to be kept goes with its end.
    void dropOnce();
    turn.subscription.close();
  }
}
