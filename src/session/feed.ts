import { Drafts } from './drafts.ts';
import { isStored, type LiveFragment, type SessionUpdate } from './events.ts';

/** An inbox with this many updates is emptied: its watcher reads them from the log instead. */
const maxPending = 1_024;
/** Shared by all empty inboxes, of which there can be thousands. */
const nothing: SessionUpdate[] = [];
/** Stands for "anything may have been written". */
const unknownSeq = Number.MAX_SAFE_INTEGER;

/** Brings updates of sessions to their watchers in this process. For stored events, other processes only send notices to look again. */
export class Feed {
  private readonly subscriptions = new Map<string, Set<Subscription>>();
  private readonly drafts = new Drafts();
  /** Called when a client begins to watch the live text of a session whose turn may run in another process. */
  onWatched: (sessionId: string) => void = () => {};
  /** Called when a session was dropped by this process. */
  onDropped: (sessionId: string) => void = () => {};

  subscribe(sessionId: string, live: boolean): Subscription {
    const set = this.subscriptions.get(sessionId) ?? new Set();
    const subscription = new Subscription(sessionId, live, () => {
      set.delete(subscription);
      if (set.size === 0) this.subscriptions.delete(sessionId);
    });
    set.add(subscription);
    this.subscriptions.set(sessionId, set);
    if (live) for (const fragment of this.draftsOf(sessionId)) subscription.push(fragment);
    return subscription;
  }

  /** Subscribes to what others began: its turn may run in another process, and the session may have been dropped since it was found. */
  join(sessionId: string, live: boolean): Subscription {
    const subscription = this.subscribe(sessionId, live);
    // The notice of a drop may have come before we subscribed, and no other follows.
    subscription.mayBeDropped = true;
    if (live) this.onWatched(sessionId);
    return subscription;
  }

  /** The messages that are being written in a session here, each from its first word on. */
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

  /** Shows live text from another process, which keeps its drafts. The text follows the stored events up to `after`. */
  show(sessionId: string, fragments: readonly LiveFragment[], after: number): void {
    for (const subscription of this.subscriptions.get(sessionId) ?? []) {
      if (!subscription.live) continue;
      subscription.lookAgain(after);
      for (const fragment of fragments) subscription.push(fragment);
    }
  }

  /** Another process wrote events up to `lastSeq`; without it, anything may have been written. */
  lookAgain(sessionId: string, lastSeq = unknownSeq): void {
    for (const subscription of this.subscriptions.get(sessionId) ?? []) subscription.lookAgain(lastSeq);
  }

  lookAgainEverywhere(): void {
    for (const sessionId of this.subscriptions.keys()) this.lookAgain(sessionId);
  }

  /** A session was dropped: its watchers look again and find that it is gone, instead of waiting for a log that never grows. */
  drop(sessionId: string): void {
    this.lookAgain(sessionId);
    this.onDropped(sessionId);
  }

  /** The session's turn cannot continue for now: its watchers are told why instead of waiting. */
  strand(sessionId: string, reason: unknown): void {
    for (const subscription of this.subscriptions.get(sessionId) ?? []) subscription.strand(reason);
  }

  /** The same for every session that is watched, except those whose turn runs here. */
  strandAll(reason: unknown, runs: (sessionId: string) => boolean): void {
    for (const sessionId of this.subscriptions.keys()) if (!runs(sessionId)) this.strand(sessionId, reason);
  }

  /** Whether a client of this process watches the session's live text. */
  isLive(sessionId: string): boolean {
    for (const subscription of this.subscriptions.get(sessionId) ?? []) if (subscription.live) return true;
    return false;
  }

  /** Sessions whose live text a client of this process watches. */
  *liveSessions(): Generator<string> {
    for (const sessionId of this.subscriptions.keys()) if (this.isLive(sessionId)) yield sessionId;
  }

  /** Closes every subscription, because the process stops: turns that still run continue in another process. */
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
 * One watcher's inbox. It is bounded: when it is full it drops what it holds, and since it knows how far the log goes (`knownSeq`), the
 * watcher reads what was dropped from there. Whoever subscribes closes it.
 */
export class Subscription {
  readonly sessionId: string;
  readonly live: boolean;
  /** Called when there may be something to take, and when the subscription is closed. */
  onNews: (() => void) | undefined;
  closed = false;
  /** Why the session's turn cannot continue; undefined while it can. */
  stranded: unknown;
  /** The session was dropped, and its log with it. */
  dropped = false;
  /** Look up whether the session still exists, once the log has nothing new: a notice that named no seq may have been about its drop. */
  mayBeDropped = false;
  private readonly onClose: () => void;
  private pending: SessionUpdate[] = nothing;
  private knownSeq = 0;
  /** How many notices came so far: their number tells a new one from the last, which may name the same seq, or none. */
  private notices = 0;

  constructor(sessionId: string, live: boolean, onClose: () => void) {
    this.sessionId = sessionId;
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

  /** What arrived since the last call, for a watcher that has read up to `cursor`. Undefined when there is nothing new. */
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
   * The log was read to its end, at `cursor`, when this many notices had come. Unless there is a newer one, the watcher has everything.
   * A log that ends before the seq that a notice named was dropped meanwhile.
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
