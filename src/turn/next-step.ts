import { isDatabaseFailure } from '../database/database.ts';
import { interruptedCalls } from '../harness/run-turn.ts';
import { type CommitPoint, InterruptReason, type TurnYield } from '../harness/turn-world.ts';
import type { NewEvent } from '../session/events.ts';
import type { TurnIds } from '../session/operations.ts';
import type { SessionState } from '../session/state.ts';
import { noUsage } from '../session/usage.ts';
import type { Logger } from '../telemetry/logger.ts';

/**
 * What a turn does next; undefined when it is over. What its generator throws becomes the turn's failure, or is thrown where
 * the turn is to be continued later.
 */
export async function nextStep(
  steps: AsyncGenerator<TurnYield, void, void>,
  state: SessionState,
  signal: AbortSignal,
  logger: Logger,
  turn: TurnIds,
): Promise<TurnYield | undefined> {
  try {
    const { value, done } = await steps.next();
    return done ? undefined : value;
  } catch (error) {
    const cause: unknown = signal.aborted ? signal.reason : error;
    if (isDatabaseFailure(cause) || (cause instanceof InterruptReason && cause.reason === 'released')) throw cause;
    if (!(cause instanceof InterruptReason && cause.reason === 'timeout')) return unexpectedEnd(error, state, logger, turn);
    return failedEnd(state, { code: 'turn_timeout', message: 'The turn took longer than its release allows.' });
  }
}

/** For a failure that is nobody's but ours. */
export function unexpectedEnd(error: unknown, state: SessionState, logger: Logger, turn: TurnIds): CommitPoint {
  logger.error({ err: error, session_id: turn.session, turn_id: turn.turn }, 'turn failed');
  return failedEnd(state, { code: 'internal_error', message: 'The turn failed unexpectedly.' });
}

function failedEnd({ turn }: SessionState, failure: { code: string; message: string }): CommitPoint {
  const failed: NewEvent = { type: 'turn-failed', data: { ...failure, usage: turn?.usage ?? noUsage } };
  return { type: 'end', events: [...(turn === undefined ? [] : interruptedCalls(turn)), failed] };
}
