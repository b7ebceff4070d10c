import { isDatabaseFailure, refusesContent } from '../database/database.ts';
import { interruptedCalls } from '../harness/run-turn.ts';
import { BrokenAnswer, type CommitPoint, TurnAborted, type TurnYield } from '../harness/turn-world.ts';
import type { NewEvent } from '../session/events.ts';
import type { Applied, SessionLog } from '../session/log.ts';
import type { AdvanceResult, TurnIds } from '../session/operations.ts';
import type { SessionState } from '../session/state.ts';
import { addUsage, noUsage } from '../session/usage.ts';
import type { Logger } from '../telemetry/logger.ts';
import { type Accounting, advanceOperation } from './settle.ts';

export interface CommitParts {
  log: SessionLog;
  logger: Logger;
  /** What the files of an organization may have together; no limit if not set. */
  maxFileBytes?: number | undefined;
}

/**
 * The next thing that a turn yields; undefined when it is over. What its generator throws becomes the failed end of the turn, except
 * where the turn can be continued later: a failure of the database, or a turn that this process lets go of, is thrown.
 */
export async function nextYield(
  logger: Logger,
  loop: AsyncGenerator<TurnYield, void, void>,
  turn: TurnIds,
  state: SessionState,
  signal: AbortSignal,
): Promise<TurnYield | undefined> {
  try {
    const { value, done } = await loop.next();
    return done ? undefined : value;
  } catch (error) {
    const cause: unknown = signal.aborted ? signal.reason : error;
    if (isDatabaseFailure(cause) || (cause instanceof TurnAborted && cause.why === 'released')) throw cause;
    if (!(cause instanceof TurnAborted && cause.why === 'timeout')) return unexpectedEnd(logger, turn, state, error);
    const failure = { code: 'turn_timeout', message: 'The turn took longer than its release allows.' };
    return failedEnd(state, failure, error instanceof BrokenAnswer ? error : undefined);
  }
}

/**
 * Writes a commit point. If the database will never accept its content, the end of the turn is written instead: a turn left for
 * recovery would ask the model again and fail again, forever. If its files do not fit, the tool's result is that they do not.
 * Returns what was written.
 */
export async function writeCommitPoint(
  { log, logger, maxFileBytes }: CommitParts,
  point: CommitPoint,
  turn: TurnIds,
  state: SessionState,
  accounting: Accounting,
): Promise<{ point: CommitPoint; applied: Applied<AdvanceResult> }> {
  const write = (next: CommitPoint) => {
    const operation = advanceOperation(next, turn, state, accounting);
    return log.apply(operation.files === undefined ? operation : { ...operation, maxFileBytes });
  };
  try {
    const applied = await write(point);
    if (applied.result.status !== 'files-full') return { point, applied };
    const refused = withoutFiles(point, maxFileBytes);
    return { point: refused, applied: await write(refused) };
  } catch (error) {
    if (!refusesContent(error)) throw error;
    const end = unexpectedEnd(logger, turn, state, error);
    return { point: end, applied: await write(end) };
  }
}

/** The result of a tool whose changes were not stored. */
function withoutFiles({ events }: CommitPoint, maxFileBytes: number | undefined): CommitPoint {
  const output = `No file was changed: the files of this organization may have ${maxFileBytes} bytes together`;
  return {
    type: 'commit',
    events: events.map((event) =>
      event.type === 'tool-finished' ? { type: event.type, data: { ...event.data, output, isError: true } } : event,
    ),
  };
}

function unexpectedEnd(logger: Logger, { session, turn }: TurnIds, state: SessionState, error: unknown): CommitPoint {
  logger.error({ err: error, session_id: session, turn_id: turn }, 'turn failed');
  return failedEnd(state, { code: 'internal_error', message: 'The turn failed unexpectedly.' });
}

function failedEnd({ turn }: SessionState, failure: { code: string; message: string }, broken?: BrokenAnswer): CommitPoint {
  const usage = addUsage(turn?.usage ?? noUsage, broken?.usage ?? noUsage);
  const failed: NewEvent = { type: 'turn-failed', data: { ...failure, usage } };
  return { type: 'end', events: [...(broken?.events ?? []), ...(turn === undefined ? [] : interruptedCalls(turn)), failed] };
}
