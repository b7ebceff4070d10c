import { isStored, type SessionUpdate, type StoredEvent } from '../session/events.ts';
import type { Feed, Subscription } from '../session/feed.ts';
import { follow } from '../session/follow.ts';
import type { SessionLog } from '../session/log.ts';

/** A turn that somebody may watch: where its events begin, and whether what was written since is already in the inbox. */
export interface WatchableTurn {
  sessionId: string;
  turnId: string;
  after: number;
  replay: boolean;
  subscription: Subscription;
  /** Pauses up to here were answered: they are not where the watching ends. */
  restAfter?: number;
  /** All that it added, when its session is gone and the log with it. */
  kept?: StoredEvent[];
}

/** Yields the turn's updates until it ends or pauses. Leaving early, or an abort, only stops the watching. */
export async function* watchTurn(log: SessionLog, turn: WatchableTurn, signal?: AbortSignal): AsyncGenerator<SessionUpdate[]> {
  const close = () => turn.subscription.close();
  signal?.addEventListener('abort', close, { once: true });
  try {
    if (turn.kept !== undefined) return yield turn.kept;
    for await (const updates of follow(log, turn.subscription, turn.sessionId, turn.after, turn.replay)) {
      const { own, rests } = ownPart(turn, updates);
      if (own.length > 0) yield own;
      if (rests) return;
    }
  } finally {
    signal?.removeEventListener('abort', close);
    close();
  }
}

/** What the turn has stored so far, up to its rest, without waiting for more. */
export async function* readTurn(log: SessionLog, turn: WatchableTurn): AsyncGenerator<StoredEvent[]> {
  turn.subscription.close();
  for await (const events of log.readAll(turn.sessionId, turn.after)) {
    const { own, rests } = ownPart(turn, events);
    yield own;
    if (rests) return;
  }
}

/** What of a batch is the turn's, up to its rest. */
function ownPart<Update extends SessionUpdate>(turn: WatchableTurn, updates: readonly Update[]): { own: Update[]; rests: boolean } {
  const own = updates.filter((update) => update.turnId === turn.turnId);
  const rest = own.findIndex((update) => isStored(update) && update.seq > (turn.restAfter ?? 0) && isRest(update.type));
  return rest < 0 ? { own, rests: false } : { own: own.slice(0, rest + 1), rests: true };
}

/** Watches a turn that began earlier, from its beginning or from `after` on. */
export function watchAgain(feed: Feed, sessionId: string, turnId: string, after: number, live: boolean): WatchableTurn {
  return { sessionId, turnId, after, replay: true, subscription: feed.subscribe(sessionId, live, true) };
}

/** Whether a turn that wrote this does nothing more by itself. */
export function isRest(type: string): boolean {
  return type === 'turn-ended' || type === 'turn-failed' || type === 'approval-requested';
}
