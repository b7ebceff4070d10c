import { refusesContent } from '../database/database.ts';
import type { CommitPoint } from '../harness/turn-world.ts';
import type { Applied, SessionLog } from '../session/log.ts';
import type { TurnIds } from '../session/operations.ts';
import type { SessionState } from '../session/state.ts';
import type { Logger } from '../telemetry/logger.ts';
import { unexpectedEnd } from './next-step.ts';
import { type Accounting, advanceOperation } from './settle.ts';

/**
 * Writes a commit point. One that the database will never take becomes the end of the turn: left for recovery, it would be
 * made again, by asking the model again, for ever.
 */
export async function writeStep(
  { log, logger }: { log: SessionLog; logger: Logger },
  step: CommitPoint,
  turn: TurnIds,
  state: SessionState,
  accounting: Accounting,
): Promise<{ point: CommitPoint; applied: Applied }> {
  const write = async (point: CommitPoint) => ({ point, applied: await log.apply(advanceOperation(point, turn, state, accounting)) });
  try {
    return await write(step);
  } catch (error) {
    if (!refusesContent(error)) throw error;
    return write(unexpectedEnd(error, state, logger, turn));
  }
}
