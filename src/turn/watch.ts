import { isStored, type SessionUpdate, type StoredEvent } from '../session/events.ts';
import type { Feed, Subscription } from '../session/feed.ts';
import { follow } from '../session/follow.ts';
import type { SessionLog } from '../session/log.ts';

/** A turn that can be watched. */
export interface WatchableTurn {
  sessionId: string;
  turnId: string;
  /** The turn's events come after this seq. */
  after: number;
  /** Whether the log has to be read from `after` on; otherwise the subscription brings everything. */
  replay: boolean;
  subscription: Subscription;
  /** Pauses up to this seq have been answered, so watching does not end there. */
  restAfter?: number;
  /** All events of the turn, when its session was dropped and the log with it. */
  kept?: StoredEvent[];
}

/** Yields the turn's updates until it ends or pauses. Leaving early, or an abort, does not affect the turn. */
export async function* watchTurn(log: SessionLog, turn: WatchableTurn, signal?: AbortSignal): AsyncGenerator<SessionUpdate[]> {
  const close = () => turn.subscription.close();
  if (signal?.aborted) close();
  signal?.addEventListener('abort', close, { once: true });
  try {
    if (turn.kept !== undefined) return yield turn.kept;
    for await (const updates of follow(log, turn.subscription, turn.after, turn.replay)) {
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

/** The updates of a batch that belong to the turn, up to its rest. */
function ownPart<Update extends SessionUpdate>(turn: WatchableTurn, updates: readonly Update[]): { own: Update[]; rests: boolean } {
  const own = updates.filter((update) => update.turnId === turn.turnId);
  const rest = own.findIndex((update) => isStored(update) && update.seq > (turn.restAfter ?? 0) && isRest(update.type));
  return rest < 0 ? { own, rests: false } : { own: own.slice(0, rest + 1), rests: true };
}

/** A turn that began earlier, to be watched from its beginning or from `after` on. */
export function subscribeAgain(feed: Feed, sessionId: string, turnId: string, after: number, live: boolean): WatchableTurn {
  return { sessionId, turnId, after, replay: true, subscription: feed.join(sessionId, live) };
}

/** Whether a turn rests after this event: it ended, failed, or waits for an approval. */
export function isRest(type: StoredEvent['type']): boolean {
  return type === 'turn-ended' || type === 'turn-failed' || type === 'approval-requested';
}
