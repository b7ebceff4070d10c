import { ServiceError } from '../errors.ts';
import { isStored, type LiveFragment, type SessionUpdate, type StoredEvent } from './events.ts';
import type { Subscription } from './feed.ts';
import type { SessionLog } from './log.ts';

const dropped = 'The session of this turn no longer exists. Send the request again.';

/**
 * Yields, in batches, every stored event after `after` once and in order, and live fragments as they come. Ends when the
 * subscription is closed; throws when the session's turn is stranded or the session was dropped. `replay` is false when the caller
 * knows that nothing was written between `after` and the subscription.
 */
export async function* follow(
  log: SessionLog,
  subscription: Subscription,
  after: number,
  replay: boolean,
): AsyncGenerator<SessionUpdate[]> {
  const follower = new Follower(log, subscription, after, replay);
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
 * The position of one watcher in a session. It reads the log, then the subscription, and the log again whenever the subscription
 * missed something. It holds no promise or timer between reads, so that thousands of idle watchers cost little.
 */
export class Follower {
  private readonly log: SessionLog;
  private readonly subscription: Subscription;
  private readonly preview: Preview | undefined;
  private cursor: number;
  private isBehind: boolean;
  /** How many notices had come when the reading of the log began. */
  private notices = 0;

  constructor(log: SessionLog, subscription: Subscription, after: number, replay: boolean) {
    this.log = log;
    this.subscription = subscription;
    this.cursor = after;
    this.isBehind = replay;
    this.preview = subscription.live ? new Preview() : undefined;
  }

  /** The next batch. Undefined: there is none until the subscription has news, or none ever, if the subscription is closed or dropped. */
  async read(): Promise<SessionUpdate[] | undefined> {
    const { subscription } = this;
    for (;;) {
      const updates = this.isBehind ? await this.readLog() : this.readNews();
      if (subscription.closed) return undefined;
      if (updates?.length === 0) continue;
      if (updates !== undefined || !subscription.mayBeDropped) return updates;
      subscription.mayBeDropped = false;
      subscription.dropped = !(await this.log.exists(subscription.sessionId));
    }
  }

  private async readLog(): Promise<SessionUpdate[]> {
    const { events, hasMore } = await this.log.readPage(this.subscription.sessionId, this.cursor);
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
 * How many of these updates can be shown now. Those that follow a missing stored event wait until the log has been read. That
 * includes live text, which does not say which event it follows.
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

/** Messages and turns whose progress is remembered: far more than can be in the making in one session. */
const maxPreviewed = 64;

/**
 * Decides which live text a watcher is shown: that of a message from its first word on and without a gap. A watcher that missed a
 * fragment gets the rest when the message is stored; one that has read the message from the log gets no late fragments of it, nor of
 * one that was given up in its favour, which will never be stored.
 */
class Preview {
  /** By message id, how many characters were shown; NaN once the message is stored. */
  private readonly shown = new Map<string, number>();
  /** By turn id, the last step that is stored; none of a turn that has ended will be shown any more. */
  private readonly stored = new Map<string, number>();

  /** The part of a fragment that the watcher has not seen; a draft repeats what they have. */
  continuation(fragment: LiveFragment): LiveFragment | undefined {
    const { messageId, offset, text } = fragment;
    if (fragment.step <= (this.stored.get(fragment.turnId) ?? 0)) return undefined;
    const shown = this.shown.get(messageId) ?? 0;
    const end = offset + text.length;
    // Also false for a stored message, since no comparison with NaN is true.
    if (!(offset <= shown && shown < end)) return undefined;
    remember(this.shown, messageId, end);
    return offset === shown ? fragment : { ...fragment, offset: shown, text: text.slice(shown - offset) };
  }

  /** No more live text of a stored message is shown. If its text was shown in part, the rest comes now. */
  close(event: StoredEvent): LiveFragment[] {
    const lastStep = lastStepOf(event);
    if (lastStep !== undefined) remember(this.stored, event.turnId, lastStep);
    if (event.type !== 'message-produced' && event.type !== 'reasoning-produced') return [];
    const { messageId, text, step } = event.data;
    const shown = this.shown.get(messageId);
    remember(this.shown, messageId, Number.NaN);
    if (event.type !== 'message-produced' || !(shown !== undefined && shown < text.length)) return [];
    const { agent } = event.data;
    return [{ type: 'text-delta', turnId: event.turnId, messageId, step, agent, offset: shown, text: text.slice(shown) }];
  }
}

/** The step that has nothing more to say once this event is stored. */
function lastStepOf(event: StoredEvent): number | undefined {
  if (event.type === 'message-produced' || event.type === 'tool-called') return event.data.step;
  return event.type === 'turn-ended' || event.type === 'turn-failed' ? Number.POSITIVE_INFINITY : undefined;
}

function remember(progress: Map<string, number>, id: string, value: number): void {
  progress.set(id, value);
  if (progress.size <= maxPreviewed) return;
  const [oldest] = progress.keys();
  if (oldest !== undefined) progress.delete(oldest);
}
