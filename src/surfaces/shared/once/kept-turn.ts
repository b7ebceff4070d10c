import type { Context } from '../../../context.ts';
import type { StoredEvent } from '../../../session/events.ts';
import { type WatchableTurn, watchAgain } from '../../../turn/watch.ts';
import { openAnswer, sealAnswer } from './idempotency.ts';

/** What is kept under an Idempotency-Key of a turn whose session is to be dropped: the same request gets its answer from it. */
interface KeptTurn {
  sessionId: string;
  events: StoredEvent[];
}

/** Keeps what the answer is made of. What was asked, and what tools gave, is no part of it. */
export async function keepTurn(
  context: Context,
  orgId: number,
  key: string,
  { sessionId, turnId }: WatchableTurn,
  events: StoredEvent[],
): Promise<void> {
  const said = events.filter(({ type }) => type !== 'message-received' && type !== 'tool-finished');
  const kept: KeptTurn = { sessionId, events: said };
  await context.database.db
    .updateTable('idempotency_keys')
    .set({ turn_id: turnId, response: sealAnswer(context, orgId, key, kept) })
    .where('org_id', '=', orgId)
    .where('key', '=', key)
    .execute();
}

/** The turn as it was, to be watched like any other. */
export function openKeptTurn(context: Context, orgId: number, key: string, turnId: string, sealed: string): WatchableTurn {
  const { sessionId, events } = openAnswer<KeptTurn>(context, orgId, key, sealed);
  const kept = events.map((event) => ({ ...event, createdAt: new Date(event.createdAt) }));
  return { ...watchAgain(context.feed, sessionId, turnId, 0, false), kept };
}
