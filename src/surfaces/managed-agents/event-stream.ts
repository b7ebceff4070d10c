import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import type { Context } from '../../context.ts';
import { isStored } from '../../session/events.ts';
import { follow } from '../../session/feed.ts';
import type { Session } from '../../session/sessions.ts';
import { sendEvents } from '../shared/sse.ts';
import { closingFrame, deltaFrame, frameText, isTerminal } from './project.ts';
import type { streamQuery } from './schemas.ts';

/** Text goes to the socket in pieces of about this size, so that a slow reader of a long log holds little. */
const pieceCharacters = 64 * 1024;

/** Streams the log from the client's cursor on, and goes on with what is added, across turns. */
export async function streamLog(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  session: Session,
  query: Static<typeof streamQuery>,
): Promise<void> {
  const abort = new AbortController();
  const after = cursorOf(request, query.after, session.lastSeq);
  await sendEvents(reply, frames(context, session.id, after, query, abort.signal), abort, closingFrame);
}

async function* frames(
  context: Context,
  sessionId: string,
  after: number,
  { until, deltas = false }: Static<typeof streamQuery>,
  signal: AbortSignal,
): AsyncGenerator<string> {
  const subscription = context.feed.subscribe(sessionId, deltas, true);
  const close = () => subscription.close();
  signal.addEventListener('abort', close, { once: true });
  try {
    for await (const updates of follow(context.log, subscription, sessionId, after, true)) {
      let text = '';
      for (const update of updates) {
        if (!isStored(update)) {
          text += deltaFrame(update, sessionId);
          continue;
        }
        text += frameText(update, sessionId);
        if (until === 'idle' && isTerminal(update)) {
          yield text;
          return;
        }
        if (text.length < pieceCharacters) continue;
        yield text;
        text = '';
      }
      if (text !== '') yield text;
    }
  } finally {
    signal.removeEventListener('abort', close);
    close();
  }
}

/** A browser that reconnects repeats its first URL and adds the header, so the larger one is where it is. */
function cursorOf(request: FastifyRequest, after: number | undefined, lastSeq: number): number {
  const header = request.headers['last-event-id'];
  const seen = typeof header === 'string' && /^\d{1,15}$/.test(header) ? Number(header) : 0;
  // No client has seen more than there is; one that says so would otherwise miss what comes.
  return Math.min(Math.max(after ?? 0, seen), lastSeq);
}
