import type { ChangedOrg } from '../accounts/org-cache.ts';

interface RunningTurn {
  orgId: number;
  sessionId: string;
}

interface RunningTurns {
  readonly running: ReadonlyMap<string, RunningTurn>;
  interrupt(turnId: string): void;
}

/** Interrupts turns that run here and no longer may, because their organization was suspended or their agent deleted. */
export class Recheck {
  private readonly turns: RunningTurns;
  private readonly mayRun: (turn: RunningTurn) => Promise<boolean>;
  /** Turns that a change may have been about, and that were not looked at since. */
  private readonly unchecked = new Set<string>();

  constructor(turns: RunningTurns, mayRun: (turn: RunningTurn) => Promise<boolean>) {
    this.turns = turns;
    this.mayRun = mayRun;
  }

  /** Something of the organization has changed. */
  noteChange(changed: ChangedOrg): void {
    for (const [turnId, { orgId }] of this.turns.running) if (changed === 'all' || orgId === changed) this.unchecked.add(turnId);
  }

  /** Throws if the database could not be asked about some of the turns: the next call looks at those again. */
  async run(): Promise<void> {
    const failures: unknown[] = [];
    for (const turnId of [...this.unchecked]) {
      // Before it is looked at: a change that is noted meanwhile has it looked at once more.
      this.unchecked.delete(turnId);
      await this.check(turnId).catch((error: unknown) => {
        this.unchecked.add(turnId);
        failures.push(error);
      });
    }
    if (failures.length > 0) throw failures[0];
  }

  private async check(turnId: string): Promise<void> {
    const turn = this.turns.running.get(turnId);
    if (turn === undefined || (await this.mayRun(turn))) return;
    // One that has paused meanwhile stays as it is: it may go on when the organization is active again.
    if (this.turns.running.has(turnId)) this.turns.interrupt(turnId);
  }
}
