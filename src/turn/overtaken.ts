import type { StoredEvent } from '../session/events.ts';
import type { SessionLog } from '../session/log.ts';
import type { TurnIds } from '../session/operations.ts';
import type { SessionState } from '../session/state.ts';

/** A turn that is to be run here. */
export interface BegunTurn {
  turn: TurnIds;
  /** The newest events of the turn; none of one that was taken over. */
  events: StoredEvent[];
  /** The turn was begun by another run, which may have died in the middle of a step. */
  recovered: boolean;
  /** The answer of the log that assigned it to this process took longer than a lease lasts: more of the turn may be in the log. */
  late: boolean;
}

/**
 * Whether another run has ended the turn, or gone on with it. That happens when the lease of the turn runs out before it is begun here:
 * then the tool calls in the log are not this run's to carry out.
 */
export async function isOvertaken(log: SessionLog, { turn, events }: BegunTurn, state: SessionState): Promise<boolean> {
  if (state.turn?.id !== turn.turn || state.turn.ended !== undefined) return true;
  const last = events.at(-1)?.seq ?? state.seq;
  if (state.seq <= last) return false;
  const later = await log.read(turn.session, last, state.seq - last);
  return later.some((event) => event.turnId === turn.turn && event.type !== 'interrupt-requested');
}
