import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import type { Context } from '../../context.ts';
import { isStored, type SessionUpdate } from '../../session/events.ts';
import type { Subscription } from '../../session/feed.ts';
import { Follower } from '../../session/follow.ts';
import type { Session } from '../../session/sessions.ts';
import { isRest } from '../../turn/watch.ts';
import { type PushedSource, pushEvents } from '../shared/streams/pushed-stream.ts';
import { closingFrame, deltaFrame, frameText } from './project.ts';
import type { streamQuery } from './schemas.ts';

/** The log is written in chunks of about this size, so that little is held in memory for a slow client. */
const chunkCharacters = 64 * 1024;

/** Streams the log from the client's cursor on, and then whatever is added to it, across turns. Returns at once. */
export function streamLog(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  session: Session,
  { after, until, deltas = false }: Static<typeof streamQuery>,
): void {
  const subscription = context.feed.join(session.id, deltas);
  const follower = new Follower(context.log, subscription, cursorOf(request, after, session.lastSeq), true);
  pushEvents(reply, new LogSource(subscription, follower, until === 'idle'), closingFrame);
}

class LogSource implements PushedSource {
  private readonly subscription: Subscription;
  private readonly follower: Follower;
  private readonly untilIdle: boolean;
  /** What is left of a batch that is sent in several chunks. */
  private unsent: SessionUpdate[] | undefined;
  private isOver = false;

  constructor(subscription: Subscription, follower: Follower, untilIdle: boolean) {
    this.subscription = subscription;
    this.follower = follower;
    this.untilIdle = untilIdle;
  }

  onNews(listener: () => void): void {
    this.subscription.onNews = listener;
  }

  async read(): Promise<string | undefined> {
    if (this.isOver || this.subscription.closed) return undefined;
    const { sessionId } = this.subscription;
    const updates = this.unsent ?? (await this.follower.read());
    this.unsent = undefined;
    if (updates === undefined) return this.readEnd();
    let text = '';
    for (const [index, update] of updates.entries()) {
      const frame = isStored(update) ? frameText(update, sessionId) : deltaFrame(update, sessionId);
      // A long frame goes alone: joined to others, its text would no longer be the one that all readers share.
      if (text !== '' && text.length + frame.length > chunkCharacters) {
        this.unsent = updates.slice(index);
        break;
      }
      text += frame;
      this.isOver = this.untilIdle && isStored(update) && isRest(update.type);
      if (this.isOver) break;
    }
    // The batch was all live reasoning, which has no frames. An empty text would say that there is nothing more to read.
    return text === '' ? this.read() : text;
  }

  private readEnd(): string | undefined {
    const { closed, dropped } = this.subscription;
    if (closed) return undefined;
    this.isOver = dropped;
    return dropped ? closingFrame('session_deleted') : '';
  }

  close(): void {
    this.subscription.close();
  }
}

/** A browser that reconnects repeats its first URL and adds Last-Event-ID: the larger of the two is where it stopped. */
function cursorOf(request: FastifyRequest, after: number | undefined, lastSeq: number): number {
  const header = request.headers['last-event-id'];
  const seen = typeof header === 'string' && /^\d+$/.test(header) ? Number(header) : 0;
  // With a cursor beyond the end of the log, the client would miss the next events.
  return Math.min(Math.max(after ?? 0, seen), lastSeq);
}
