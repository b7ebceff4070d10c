import { LRUCache } from 'lru-cache';
import { refusesWrites } from '../database/database.ts';
import { runTurn } from '../harness/run-turn.ts';
import { type CommitPoint, TurnAborted, type TurnWorld } from '../harness/turn-world.ts';
import type { LiveFragment, StoredEvent } from '../session/events.ts';
import type { Feed } from '../session/feed.ts';
import { type Applied, numberEvents, startedEvents } from '../session/log.ts';
import type { AdvanceResult, TurnIds, WrittenResult } from '../session/operations.ts';
import { foldSession, type SessionState } from '../session/state.ts';
import { type CommitParts, nextYield, writeCommitPoint } from './commit-points.ts';
import { nobodyElsewhere } from './live-relay.ts';
import { type BegunTurn, isOvertaken } from './overtaken.ts';
import { RecentStates } from './recent-states.ts';
import { Recheck } from './recheck.ts';
import type { Accounting } from './settle.ts';

/** What the turns of one session run with: whose they are and what they may use. It does not change while the session lives. */
export interface TurnSetting {
  orgId: number;
  agentId: number;
  agentSlug: string;
  sessionId: string;
  timeoutSeconds: number;
  /** What one turn runs with. What it costs depends on whose keys its own model calls were made with: that may change at any time. */
  forTurn(): Accounting & { world: TurnWorld };
}

/** Whether this process holds a turn. `lost`: the turn has not ended, and another process holds it or, while it is paused, nobody. */
export type Hold = 'ours' | 'lost' | 'ended';

export interface RunnerParts extends CommitParts {
  feed: Feed;
  /** Undefined when the session does not exist any more. */
  settingFor(orgId: number, sessionId: string): Promise<TurnSetting | undefined>;
  /** False for a suspended organization or a deleted agent: their turns are ended, since no client can reach them to do so. */
  mayRun(setting: TurnSetting): Promise<boolean>;
  holdOn(turnId: string): Promise<Hold>;
  onTurnTaken(setting: TurnSetting, turnId: string): void;
  /** The turn no longer runs here: it ended, paused, failed to be written, or was taken over by another process. */
  onTurnLeft(turnId: string, state: SessionState): void;
  onTurnPaused(milliseconds: number): void;
  onTurnEnded(setting: TurnSetting, state: SessionState, milliseconds: number): void;
}

interface RunningTurn {
  orgId: number;
  sessionId: string;
  controller: AbortController;
  done: Promise<void>;
}

interface Run extends BegunTurn {
  controller: AbortController;
  /** The client waits for the whole answer: the model need not stream it unless somebody else watches. */
  whole: boolean;
}

/**
 * Runs turns. A session has one at a time, since the log starts its next turn only when one has ended. A turn that was admitted,
 * resumed after an approval or taken over from a dead process is given to `begin`. It runs whether or not anybody watches it.
 */
export class Runner {
  readonly running = new Map<string, RunningTurn>();
  readonly states = new RecentStates();
  readonly recheck: Recheck;
  /** The relay, once the other processes are joined. */
  elsewhere = nobodyElsewhere;
  /** The running turn of each session. */
  private readonly sessions = new Map<string, string>();
  private readonly parts: RunnerParts;
  /** Turns that were interrupted after the log assigned them to this process and before they began to run. */
  private readonly interruptedEarly = new LRUCache<string, true>({ max: 1_000 });
  private hasReleased = false;

  constructor(parts: RunnerParts) {
    this.parts = parts;
    this.recheck = new Recheck(this, async ({ orgId, sessionId }) => {
      const setting = await parts.settingFor(orgId, sessionId);
      return setting === undefined || parts.mayRun(setting);
    });
  }

  /** Runs a turn whose newest events are these, then the turns that wait behind it in its session. */
  begin(turn: TurnIds, events: StoredEvent[], options: Partial<Pick<Run, 'recovered' | 'late' | 'whole'>> = {}): void {
    // Two runs at once would both write under the name of this process, and neither would be refused: an earlier one leaves first.
    const earlier = this.running.get(turn.turn);
    if (earlier !== undefined) return void earlier.done.then(() => this.begin(turn, events, options));
    const { recovered = false, late = false, whole = false } = options;
    this.parts.feed.publish(turn.session, events);
    // It was admitted while this process let go of its turns: it is let go of too.
    if (this.hasReleased) return;
    const controller = new AbortController();
    const done = this.runAll({ turn, events, recovered, late, controller, whole }).catch((error: unknown) => {
      if (isReleased(error)) return;
      this.states.drop(turn.session);
      // It may have failed after a write and before its watchers were told: they are, at the next beat of the leases.
      this.parts.log.doubt(turn.session);
      this.parts.logger.warn({ err: error, session_id: turn.session, turn_id: turn.turn }, 'turn left for recovery');
      if (refusesWrites(error)) this.parts.feed.strand(turn.session, error);
    });
    this.hold(turn, controller, done);
  }

  /** The id of the session's turn, if it runs here. */
  turnOf(sessionId: string): string | undefined {
    return this.sessions.get(sessionId);
  }

  /** Ends the turn as soon as possible, whatever it is doing. */
  interrupt(turnId: string): void {
    const turn = this.running.get(turnId);
    if (turn === undefined) this.interruptedEarly.set(turnId, true);
    else turn.controller.abort(new TurnAborted('interrupted'));
  }

  /** Another process has taken the turn over: it is aborted here, and nothing more is written for it. */
  lose(turnId: string): void {
    const turn = this.running.get(turnId);
    if (turn === undefined) return;
    this.states.drop(turn.sessionId);
    turn.controller.abort(new TurnAborted('released'));
  }

  /**
   * Waits until no run is left here whose turn was paused or taken over by another process. Called before the session's turn is taken
   * up again: from then on, whatever such a run still writes would be accepted.
   */
  async leaveLost(sessionId: string): Promise<void> {
    const turnId = this.turnOf(sessionId);
    const turn = turnId === undefined ? undefined : this.running.get(turnId);
    if (turnId === undefined || turn === undefined || (await this.parts.holdOn(turnId)) !== 'lost') return;
    this.lose(turnId);
    await turn.done;
  }

  /** Whether to act on an answer of the log. After one that came late, another process may have taken the turn over. */
  async mayAct(turnId: string, late: boolean): Promise<boolean> {
    return !late || (await this.parts.holdOn(turnId)) === 'ours';
  }

  /** Aborts every turn without ending it: another process, or the next start, continues it from the log. */
  async release(): Promise<void> {
    this.hasReleased = true;
    const turns = [...this.running.values()];
    for (const turn of turns) turn.controller.abort(new TurnAborted('released'));
    await Promise.allSettled(turns.map((turn) => turn.done));
  }

  /** Resolves when no turn runs here. */
  async idle(): Promise<void> {
    while (this.running.size > 0) await Promise.allSettled([...this.running.values()].map((turn) => turn.done));
  }

  private hold(turn: TurnIds, controller: AbortController, done: Promise<void>): void {
    this.running.set(turn.turn, { orgId: turn.org, sessionId: turn.session, controller, done });
    this.sessions.set(turn.session, turn.turn);
    if (this.interruptedEarly.delete(turn.turn)) this.interrupt(turn.turn);
  }

  private async runAll(first: Run): Promise<void> {
    let run: Run | undefined = first;
    while (run !== undefined) run = await this.runAndHoldNext(run);
  }

  /** The next turn is held before this one is let go: in between, the session would look as if no turn ran. */
  private async runAndHoldNext(run: Run): Promise<Run | undefined> {
    const { turn } = run;
    try {
      const next = await this.runOne(run);
      // Its lease may have run out meanwhile: if it was claimed here, it runs already.
      if (next === undefined || this.running.has(next.turn.turn)) return undefined;
      this.hold(next.turn, next.controller, this.running.get(turn.turn)?.done ?? Promise.resolve());
      this.parts.feed.publish(next.turn.session, next.events);
      return next;
    } finally {
      this.running.delete(turn.turn);
      if (this.sessions.get(turn.session) === turn.turn) this.sessions.delete(turn.session);
    }
  }

  /** Runs one turn to its end or pause. Returns the turn that waited behind it, unless it paused or was taken over. */
  private async runOne(run: Run): Promise<Run | undefined> {
    const { turn, controller } = run;
    const loaded = await this.load(run);
    if (loaded === undefined) return undefined;
    const { setting, state } = loaded;
    const begun = performance.now();
    this.parts.onTurnTaken(setting, turn.turn);
    const timeout = setTimeout(() => controller.abort(new TurnAborted('timeout')), setting.timeoutSeconds * 1000);
    const { world: ownWorld, ...accounting } = setting.forTurn();
    const world = run.whole ? { ...ownWorld, isWatched: () => this.isWatched(turn.session) } : ownWorld;
    let loop = runTurn(state, world, controller.signal, run.recovered);
    try {
      for (;;) {
        const yielded = await nextYield(this.parts.logger, loop, turn, state, controller.signal);
        if (yielded === undefined) return undefined;
        if (yielded.type === 'live') {
          this.show(turn.session, yielded.fragment);
          continue;
        }
        await this.elsewhere.flush(turn.session);
        const { point, applied } = await writeCommitPoint(this.parts, yielded, turn, state, accounting);
        const written = await this.publishWritten(turn, state, point, applied);
        if (written === undefined) return undefined;
        if (written.status === 'interrupted') {
          // A pause was not written because of an interrupt, which is in the state now: run again over that state, the turn ends.
          loop = runTurn(state, world, controller.signal, false);
        } else if (point.type === 'commit') {
          if (written.interrupted) controller.abort(new TurnAborted('interrupted'));
        } else {
          this.states.keepGrown(turn.session, state);
          const milliseconds = performance.now() - begun;
          if (point.type === 'pause') return void this.parts.onTurnPaused(milliseconds);
          this.parts.onTurnEnded(setting, state, milliseconds);
          // This process lets go of its turns: the next one is left to another process too.
          return isReleased(controller.signal.reason) ? undefined : this.nextRun(turn, written, applied);
        }
      }
    } finally {
      clearTimeout(timeout);
      this.parts.feed.dropDrafts(turn.session);
      this.parts.onTurnLeft(turn.turn, state);
      await loop.return();
    }
  }

  /** What the turn runs with and over. Undefined when it is not to be run: its session is gone, or another run has gone on with it. */
  private async load(run: Run): Promise<{ setting: TurnSetting; state: SessionState } | undefined> {
    const { turn, events, late, recovered } = run;
    const setting = await this.parts.settingFor(turn.org, turn.session);
    if (setting === undefined) return undefined;
    if (!(await this.parts.mayRun(setting))) this.interrupt(turn.turn);
    // Without events, all of the log is read.
    const state = await this.states.fold(this.parts.log, turn.session, turn.turn, late ? [] : events);
    if (await isOvertaken(this.parts.log, run, state)) return undefined;
    // The process that died may not have told the watchers of what it wrote.
    if (recovered) this.parts.feed.lookAgain(turn.session, state.seq);
    return { setting, state };
  }

  private isWatched(sessionId: string): boolean {
    return this.parts.feed.isLive(sessionId) || this.elsewhere.isWatched(sessionId);
  }

  private show(sessionId: string, fragment: LiveFragment): void {
    this.parts.feed.publish(sessionId, [fragment]);
    this.elsewhere.show(sessionId, fragment);
  }

  /**
   * Publishes what was written and folds it into the state, after anything that another process wrote before it. Undefined when another
   * process has taken the turn over.
   */
  private async publishWritten(
    turn: TurnIds,
    state: SessionState,
    point: CommitPoint,
    { result, at, late }: Applied<AdvanceResult>,
  ): Promise<WrittenResult | undefined> {
    if (!('seq' in result) || (point.type === 'commit' && !(await this.mayAct(turn.turn, late)))) {
      this.states.drop(turn.session);
      return undefined;
    }
    const { seq } = result;
    if (seq > state.seq + 1) foldSession(await this.parts.log.read(turn.session, state.seq, seq - 1 - state.seq), state);
    const stored = numberEvents(result.status === 'interrupted' ? [] : point.events, turn.turn, seq, at);
    foldSession(stored, state);
    this.parts.feed.publish(turn.session, stored);
    return result;
  }

  private async nextRun({ session }: TurnIds, { next }: WrittenResult, { at, late }: Applied): Promise<Run | undefined> {
    if (!next) return undefined;
    if ('turn' in next) {
      if (!(await this.mayAct(next.turn, late)) || this.hasReleased) return undefined;
      return { turn: next, events: startedEvents(next, at), recovered: false, late, controller: new AbortController(), whole: false };
    }
    this.parts.feed.lookAgain(session, next.endedThrough);
    return undefined;
  }
}

function isReleased(reason: unknown): boolean {
  return reason instanceof TurnAborted && reason.why === 'released';
}
