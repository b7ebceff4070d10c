import { Drafts } from './drafts.ts';
import { isStored, type LiveFragment, type SessionUpdate, type StoredEvent } from './events.ts';
import type { SessionLog } from './log.ts';

/** A watcher this far behind is not sent more: it reads the rest from the log when it is ready. */
const maxPending = 1_024;

/** Brings what is written to whoever watches, in this process. Other processes only say "look again". */
export class Feed {
  private readonly subscriptions = new Map<string, Set<Subscription>>();
  private readonly drafts = new Drafts();
  /** Told when somebody begins to watch the text of a session that may be running in another process. */
  onWatched: (sessionId: string) => void = () => {};

  subscribe(sessionId: string, live: boolean, mayRunElsewhere = false): Subscription {
    const set = this.subscriptions.get(sessionId) ?? new Set();
    const subscription = new Subscription(live, () => {
      set.delete(subscription);
      if (set.size === 0 && this.subscriptions.get(sessionId) === set) this.subscriptions.delete(sessionId);
    });
    set.add(subscription);
    this.subscriptions.set(sessionId, set);
    if (live) for (const fragment of this.draftsOf(sessionId)) subscription.push(fragment);
    if (live && mayRunElsewhere) this.onWatched(sessionId);
    return subscription;
  }

  /** What is being written in a session, from each message's first word on. */
  draftsOf(sessionId: string): LiveFragment[] {
    return Array.from(this.drafts.of(sessionId), (draft) => ({ ...draft }));
  }

  publish(sessionId: string, updates: readonly SessionUpdate[]): void {
    for (const update of updates) this.drafts.note(sessionId, update);
    const set = this.subscriptions.get(sessionId);
    if (set === undefined) return;
    for (const subscription of set) for (const update of updates) subscription.push(update);
  }

  /** Another process wrote up to `lastSeq`, or may have written anything when it is unknown. */
  lookAgain(sessionId: string, lastSeq = Number.MAX_SAFE_INTEGER): void {
    for (const subscription of this.subscriptions.get(sessionId) ?? []) subscription.lookAgain(lastSeq);
  }

  lookAgainEverywhere(): void {
    for (const sessionId of this.subscriptions.keys()) this.lookAgain(sessionId);
  }

  /** Sessions whose text somebody here wants to see as it comes. */
  *liveSessions(): Generator<string> {
    for (const [sessionId, set] of this.subscriptions)
      for (const subscription of set)
        if (subscription.live) {
          yield sessionId;
          break;
        }
  }

  /** Ends every watching: the process stops, and what is still to come is written elsewhere. */
  close(): void {
    for (const set of [...this.subscriptions.values()]) for (const subscription of [...set]) subscription.close();
  }

  get watcherCount(): number {
    let count = 0;
    for (const set of this.subscriptions.values()) count += set.size;
    return count;
  }
}

/** One watcher's inbox, bounded: it forgets rather than grows, and knows that it did. Whoever subscribes closes it. */
export class Subscription {
  readonly live: boolean;
  private readonly onClose: () => void;
  private pending: SessionUpdate[] = [];
  private knownSeq = 0;
  private wake: (() => void) | undefined;
  private closed = false;

  constructor(live: boolean, onClose: () => void) {
    this.live = live;
    this.onClose = onClose;
  }

  push(update: SessionUpdate): void {
    if (!isStored(update) && !this.live) return;
    if (this.pending.length >= maxPending) this.pending = [];
    if (isStored(update)) this.knownSeq = Math.max(this.knownSeq, update.seq);
    this.pending.push(update);
    this.wake?.();
  }

  lookAgain(lastSeq: number): void {
    this.knownSeq = Math.max(this.knownSeq, lastSeq);
    this.wake?.();
  }

  /** What arrived since the last call; waits for something. Undefined once closed. */
  async take(cursor: number): Promise<{ updates: SessionUpdate[]; knownSeq: number } | undefined> {
    while (!this.closed && this.pending.length === 0 && this.knownSeq <= cursor) {
      await new Promise<void>((resolve) => {
        this.wake = resolve;
      });
      this.wake = undefined;
    }
    if (this.closed) return undefined;
    const updates = this.pending;
    this.pending = [];
    return { updates, knownSeq: this.knownSeq };
  }

  /** The log was read to its end at `cursor` and held no more: what was promised up to `knownSeq` is not to come. */
  caughtUp(cursor: number, knownSeq: number): void {
    if (this.knownSeq === knownSeq) this.knownSeq = cursor;
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.pending = [];
    this.onClose();
    this.wake?.();
  }
}

/**
 * Yields every stored event after `after` once and in order, and live fragments as they come, in batches: first from the
 * log, then from the subscription, and from the log again wherever the subscription missed something. Ends when the
 * subscription is closed. With `replay` false the caller knows that nothing was written between `after` and its subscribing.
 */
export async function* follow(
  log: SessionLog,
  subscription: Subscription,
  sessionId: string,
  after: number,
  replay: boolean,
): AsyncGenerator<SessionUpdate[]> {
  let cursor = after;
  const preview = new Preview();
  async function* readOn(): AsyncGenerator<StoredEvent[]> {
    for await (const events of log.readAll(sessionId, cursor)) {
      cursor = lastSeq(events, cursor);
      for (const event of events) preview.close(event);
      yield events;
    }
  }
  if (replay) yield* readOn();
  for (;;) {
    const taken = await subscription.take(cursor);
    if (taken === undefined) return;
    const fresh: SessionUpdate[] = [];
    let missed = false;
    for (const update of taken.updates) {
      if (!isStored(update)) {
        if (preview.continues(update)) fresh.push(update);
      } else if (update.seq === cursor + 1) {
        cursor = update.seq;
        preview.close(update);
        fresh.push(update);
      } else if (update.seq > cursor) {
        missed = true;
        break;
      }
    }
    if (fresh.length > 0) yield fresh;
    if (!missed && (taken.updates.length > 0 || taken.knownSeq <= cursor)) continue;
    yield* readOn();
    subscription.caughtUp(cursor, taken.knownSeq);
  }
}

/** Messages whose live text is remembered: far more than can be under way in one session. */
const maxPreviewed = 64;

/**
 * Which live text a watcher may be shown: that of a message from its first word on and without a gap. One who missed a
 * piece gets the message when it is stored; one who read it from the log gets no late pieces of it.
 */
class Preview {
  private readonly shown = new Map<string, number>();

  continues({ messageId, offset, text }: LiveFragment): boolean {
    if (offset !== (this.shown.get(messageId) ?? 0)) return false;
    this.remember(messageId, offset + text.length);
    return true;
  }

  close(event: StoredEvent): void {
    if (event.type === 'message-produced' || event.type === 'reasoning-produced') this.remember(event.data.messageId, Number.NaN);
  }

  private remember(messageId: string, length: number): void {
    this.shown.set(messageId, length);
    if (this.shown.size <= maxPreviewed) return;
    const [oldest] = this.shown.keys();
    if (oldest !== undefined) this.shown.delete(oldest);
  }
}

function lastSeq(events: readonly StoredEvent[], cursor: number): number {
  return events.at(-1)?.seq ?? cursor;
}
