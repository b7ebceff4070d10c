import { ServiceError } from '../errors.ts';
import { isStored, type LiveFragment, type SessionUpdate, type StoredEvent } from './events.ts';
import type { Subscription } from './feed.ts';
import type { SessionLog } from './log.ts';

const dropped = 'The session of this turn no longer exists. Send the request again.';

/**
 * Yields every stored event after `after` once and in order, and live fragments as they come, in batches. Ends when the
 * subscription is closed, and throws why when its turns are stranded or the session was dropped. With `replay` false the
 * caller knows that nothing was written between `after` and its subscribing.
 */
export async function* follow(
  log: SessionLog,
  subscription: Subscription,
  sessionId: string,
  after: number,
  replay: boolean,
): AsyncGenerator<SessionUpdate[]> {
  const follower = new Follower(log, subscription, sessionId, after, replay);
  let hasNews = false;
  let wake: (() => void) | undefined;
  subscription.onNews = () => {
    hasNews = true;
    wake?.();
  };
  for (;;) {
    hasNews = false;
    const updates = await follower.read();
    if (updates !== undefined) yield updates;
    else if (subscription.closed) return;
    else if (subscription.stranded !== undefined) throw subscription.stranded;
    else if (subscription.dropped) throw new ServiceError('conflict', dropped, { willPass: true });
    else if (!hasNews)
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
  }
}

/**
 * Where somebody is in a session's log: first reads the log, then the subscription, and the log again wherever the
 * subscription missed something. Between reads nothing waits: thousands of idle followers are thousands of small objects.
 */
export class Follower {
  private readonly log: SessionLog;
  private readonly subscription: Subscription;
  private readonly sessionId: string;
  private readonly preview: Preview | undefined;
  private cursor: number;
  private isBehind: boolean;
  /** How many notices the subscription had got when the reading of the log began. */
  private notices = 0;

  constructor(log: SessionLog, subscription: Subscription, sessionId: string, after: number, replay: boolean) {
    this.log = log;
    this.subscription = subscription;
    this.sessionId = sessionId;
    this.cursor = after;
    this.isBehind = replay;
    this.preview = subscription.live ? new Preview() : undefined;
  }

  /** The next batch; undefined when there is none until the subscription has news, or ever, if it says that the session is gone. */
  async read(): Promise<SessionUpdate[] | undefined> {
    const { subscription } = this;
    for (;;) {
      const updates = this.isBehind ? await this.readLog() : this.readNews();
      if (subscription.closed) return undefined;
      if (updates?.length === 0) continue;
      if (updates !== undefined || !subscription.mayBeDropped) return updates;
      subscription.mayBeDropped = false;
      subscription.dropped = !(await this.log.exists(this.sessionId));
    }
  }

  private async readLog(): Promise<SessionUpdate[]> {
    const { events, hasMore } = await this.log.readPage(this.sessionId, this.cursor);
    this.cursor = events.at(-1)?.seq ?? this.cursor;
    if (!hasMore) {
      this.isBehind = false;
      this.subscription.caughtUp(this.cursor, this.notices, events.length > 0);
    }
    const { preview } = this;
    return preview === undefined ? events : events.flatMap((event) => [...preview.close(event), event]);
  }

  private readNews(): SessionUpdate[] | undefined {
    const taken = this.subscription.take(this.cursor);
    if (taken === undefined) return undefined;
    this.notices = taken.notices;
    const { updates, knownSeq } = taken;
    const gapless = knownSeq > this.cursor ? updates.slice(0, gaplessLength(updates, this.cursor, knownSeq)) : updates;
    const fresh: SessionUpdate[] = [];
    for (const update of gapless) {
      if (!isStored(update)) {
        const fragment = this.preview?.continuation(update);
        if (fragment !== undefined) fresh.push(fragment);
      } else if (update.seq > this.cursor) {
        this.cursor = update.seq;
        fresh.push(...(this.preview?.close(update) ?? []), update);
      }
    }
    if (knownSeq > this.cursor) {
      this.subscription.putBack(updates.slice(gapless.length));
      this.isBehind = true;
    }
    return fresh;
  }
}

/**
 * How many of these updates can be shown now. What comes behind a stored event that is known of but not among them waits until
 * the log was read: live text above all, since it does not say what it follows.
 */
function gaplessLength(updates: readonly SessionUpdate[], cursor: number, knownSeq: number): number {
  let seq = cursor;
  let length = 0;
  for (const [index, update] of updates.entries()) {
    if (!isStored(update)) continue;
    if (update.seq > seq + 1) return length;
    seq = Math.max(seq, update.seq);
    length = index + 1;
  }
  return seq < knownSeq ? length : updates.length;
}

/** Messages whose live text is remembered: far more than can be under way in one session. */
const maxPreviewed = 64;

/**
 * Which live text a watcher may be shown: that of a message from its first word on and without a gap. One who missed a
 * piece gets the rest when the message is stored; one who read it from the log gets no late pieces of it.
 */
class Preview {
  private readonly shown = new Map<string, number>();

  /** The part of a fragment that continues where the watcher is: a draft repeats what they have seen. */
  continuation(fragment: LiveFragment): LiveFragment | undefined {
    const { messageId, offset, text } = fragment;
    const shown = this.shown.get(messageId) ?? 0;
    const end = offset + text.length;
    // Also refuses a message that was stored, whose length is NaN here.
    if (!(offset <= shown && shown < end)) return undefined;
    this.remember(messageId, end);
    return offset === shown ? fragment : { ...fragment, offset: shown, text: text.slice(shown - offset) };
  }

  /** No more of a stored message comes live. Where its text was shown in part, the missing rest comes now. */
  close(event: StoredEvent): LiveFragment[] {
    if (event.type !== 'message-produced' && event.type !== 'reasoning-produced') return [];
    const { messageId, text, step } = event.data;
    const shown = this.shown.get(messageId);
    this.remember(messageId, Number.NaN);
    if (event.type !== 'message-produced' || !(shown !== undefined && shown < text.length)) return [];
    const { agent } = event.data;
    return [{ type: 'text-delta', turnId: event.turnId, messageId, step, agent, offset: shown, text: text.slice(shown) }];
  }

  private remember(messageId: string, length: number): void {
    this.shown.set(messageId, length);
    if (this.shown.size <= maxPreviewed) return;
    const [oldest] = this.shown.keys();
    if (oldest !== undefined) this.shown.delete(oldest);
  }
}
