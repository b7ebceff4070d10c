import { Drafts } from './drafts.ts';
import { isStored, type LiveFragment, type SessionUpdate } from './events.ts';

/** A watcher this far behind is not sent more: it reads the rest from the log when it is ready. */
const maxPending = 1_024;
const nothing: SessionUpdate[] = [];
/** Of a notice that does not say how far the log goes. */
const unknownSeq = Number.MAX_SAFE_INTEGER;

/** Brings what is written to whoever watches, in this process. Other processes only say "look again". */
export class Feed {
  private readonly subscriptions = new Map<string, Set<Subscription>>();
  private readonly drafts = new Drafts();
  /** Told when somebody begins to watch the text of a session that may be running in another process. */
  onWatched: (sessionId: string) => void = () => {};
  /** Told of sessions that were dropped here. */
  onDropped: (sessionId: string) => void = () => {};

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

  /** What is being written in a session here, from each message's first word on. */
  draftsOf(sessionId: string): LiveFragment[] {
    return Array.from(this.drafts.of(sessionId), (draft) => ({ ...draft }));
  }

  dropDrafts(sessionId: string): void {
    this.drafts.drop(sessionId);
  }

  publish(sessionId: string, updates: readonly SessionUpdate[]): void {
    for (const update of updates) this.drafts.note(sessionId, update);
    const set = this.subscriptions.get(sessionId);
    if (set === undefined) return;
    for (const subscription of set) for (const update of updates) subscription.push(update);
  }

  /** Shows live text of another process, which follows the stored events up to `after`. That process keeps the draft of it. */
  show(sessionId: string, fragments: readonly LiveFragment[], after: number): void {
    for (const subscription of this.subscriptions.get(sessionId) ?? []) {
      if (!subscription.live) continue;
      subscription.lookAgain(after);
      for (const fragment of fragments) subscription.push(fragment);
    }
  }

  /** Another process wrote up to `lastSeq`, or may have written anything when it is unknown. */
  lookAgain(sessionId: string, lastSeq = unknownSeq): void {
    for (const subscription of this.subscriptions.get(sessionId) ?? []) subscription.lookAgain(lastSeq);
  }

  lookAgainEverywhere(): void {
    for (const sessionId of this.subscriptions.keys()) this.lookAgain(sessionId);
  }

  /** A session was dropped: whoever watches it sees that it is gone, and does not wait for a log that never grows. */
  drop(sessionId: string): void {
    this.lookAgain(sessionId);
    this.onDropped(sessionId);
  }

  /** The turns of a session cannot continue for now: whoever waits for one is told why instead of waiting on. */
  strand(sessionId: string, reason: unknown): void {
    for (const subscription of this.subscriptions.get(sessionId) ?? []) subscription.strand(reason);
  }

  /** The same for every session that is watched, except those whose turn runs here. */
  strandAll(reason: unknown, runs: (sessionId: string) => boolean): void {
    for (const sessionId of this.subscriptions.keys()) if (!runs(sessionId)) this.strand(sessionId, reason);
  }

  /** Whether somebody here wants to see the text of this session as it comes. */
  isLive(sessionId: string): boolean {
    for (const subscription of this.subscriptions.get(sessionId) ?? []) if (subscription.live) return true;
    return false;
  }

  /** Sessions whose text somebody here wants to see as it comes. */
  *liveSessions(): Generator<string> {
    for (const sessionId of this.subscriptions.keys()) if (this.isLive(sessionId)) yield sessionId;
  }

  /** Closes every subscription: the process stops, and what is still to come is written elsewhere. */
  close(): void {
    for (const set of [...this.subscriptions.values()]) for (const subscription of [...set]) subscription.close();
  }

  get watcherCount(): number {
    let count = 0;
    for (const set of this.subscriptions.values()) count += set.size;
    return count;
  }
}

/**
 * One watcher's inbox. It is bounded: when it is full it drops what it holds, and what was dropped is read from the log, since
 * `knownSeq` says how far that goes. Whoever subscribes closes it.
 */
export class Subscription {
  readonly live: boolean;
  /** Called when there may be something to take, and when it is closed. One watcher, so one listener. */
  onNews: (() => void) | undefined;
  closed = false;
  /** Why the turns of the session cannot go on; undefined while they can. */
  stranded: unknown;
  /** The session is gone, and its log with it. */
  dropped = false;
  /** A notice did not say how far the log goes, and nothing new is in it: whether there still is one has to be looked up. */
  mayBeDropped = false;
  private readonly onClose: () => void;
  private pending: SessionUpdate[] = nothing;
  private knownSeq = 0;
  /** How many notices came so far. Two may name the same seq, or none, and mean different events. */
  private notices = 0;

  constructor(live: boolean, onClose: () => void) {
    this.live = live;
    this.onClose = onClose;
  }

  push(update: SessionUpdate): void {
    if (!isStored(update) && !this.live) return;
    if (this.pending === nothing || this.pending.length >= maxPending) this.pending = [];
    if (isStored(update)) this.notice(update.seq);
    this.pending.push(update);
    this.onNews?.();
  }

  lookAgain(lastSeq: number): void {
    this.notice(lastSeq);
    this.onNews?.();
  }

  strand(reason: unknown): void {
    this.stranded = reason;
    this.onNews?.();
  }

  /** What arrived since the last call, for someone who has read up to `cursor`. Undefined when there is nothing. */
  take(cursor: number): { updates: SessionUpdate[]; knownSeq: number; notices: number } | undefined {
    if (this.closed || (this.pending.length === 0 && this.knownSeq <= cursor)) return undefined;
    const updates = this.pending;
    this.pending = nothing;
    return { updates, knownSeq: this.knownSeq, notices: this.notices };
  }

  /** Returns updates to the inbox, for the next call. */
  putBack(updates: SessionUpdate[]): void {
    if (!this.closed && updates.length > 0) this.pending = [...updates, ...this.pending];
  }

  /**
   * The log was read to its end at `cursor`, after so many notices: unless another came since, nothing more is known of. A log
   * that ends before where a notice said it goes was dropped meanwhile.
   */
  caughtUp(cursor: number, notices: number, foundNews: boolean): void {
    if (this.notices !== notices) return;
    if (this.knownSeq === unknownSeq) this.mayBeDropped = !foundNews;
    else if (this.knownSeq > cursor) this.dropped = true;
    this.knownSeq = cursor;
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.pending = nothing;
    this.onClose();
    this.onNews?.();
  }

  private notice(seq: number): void {
    this.knownSeq = Math.max(this.knownSeq, seq);
    this.notices += 1;
  }
}
