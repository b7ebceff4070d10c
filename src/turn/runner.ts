import { LRUCache } from 'lru-cache';
import { refusesWrites } from '../database/database.ts';
import { runTurn } from '../harness/run-turn.ts';
import { type CommitPoint, InterruptReason, type TurnWorld } from '../harness/turn-world.ts';
import type { LiveFragment, StoredEvent } from '../session/events.ts';
import type { Feed } from '../session/feed.ts';
import { type Applied, numberEvents, type SessionLog } from '../session/log.ts';
import type { StartedTurn, TurnIds } from '../session/operations.ts';
import { emptyState, foldSession, type SessionState } from '../session/state.ts';
import type { Logger } from '../telemetry/logger.ts';
import { nextStep } from './next-step.ts';
import { RecentStates } from './recent-states.ts';
import type { Accounting } from './settle.ts';
import { writeStep } from './write-step.ts';

/** What the turns of one session run with: who they are and what they may use. It does not change while the session lives. */
export interface TurnSetting extends Accounting {
  orgId: number;
  agentId: number;
  sessionId: string;
  world: TurnWorld;
  timeoutSeconds: number;
}

export interface RunnerParts {
  log: SessionLog;
  feed: Feed;
  logger: Logger;
  /** Undefined when the session is gone. */
  settingFor(orgId: number, sessionId: string): Promise<TurnSetting | undefined>;
  /** Whether the org and the agent still take turns: nobody can stop those of a suspended org or a deleted agent. */
  mayRun(setting: TurnSetting): Promise<boolean>;
  /** Whether the turn is still this process's to act for. */
  isHeld(turnId: string): Promise<boolean>;
  onTurnTaken(setting: TurnSetting, turnId: string): void;
  /** It ended, paused, or is no longer ours. */
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

/** A turn to run, with its newest events; `recovered` from another run that may have died in the middle. */
interface Run {
  turn: TurnIds;
  events: StoredEvent[];
  recovered: boolean;
  controller: AbortController;
  /** Who asked waits for the whole answer: its text need not come piece by piece unless somebody else watches. */
  whole: boolean;
}

/**
 * Runs turns: one per session at a time, since the log hands out the next only when one has ended. Whoever admitted,
 * resolved or claimed a turn gives it to `begin`. Who watches it only decides whether its model has to stream.
 */
export class Runner {
  readonly running = new Map<string, RunningTurn>();
  /** Told of text as it comes, for watchers in other processes. */
  onLive: (sessionId: string, fragment: LiveFragment) => void = () => {};
  isWatchedElsewhere: (sessionId: string) => boolean = () => false;
  /** Called before something is stored: what was shown must come first there too. */
  onStoring: (sessionId: string) => Promise<void> | undefined = () => undefined;
  /** The running turn of each session. */
  private readonly sessions = new Map<string, string>();
  private readonly parts: RunnerParts;
  /** Turns that were stopped after the log gave them to this process and before it had taken them up. */
  private readonly interruptedEarly = new LRUCache<string, true>({ max: 1_000 });
  private readonly states = new RecentStates();

  constructor(parts: RunnerParts) {
    this.parts = parts;
  }

  /** Takes up a turn whose newest events are these, and goes on with what waits behind it. */
  begin(turn: TurnIds, events: StoredEvent[], { recovered = false, whole = false } = {}): void {
    this.parts.feed.publish(turn.session, events);
    const controller = new AbortController();
    const done = this.runAll({ turn, events, recovered, controller, whole }).catch((error: unknown) => {
      if (isReleased(error)) return;
      this.states.drop(turn.session);
      // What it failed at may be the telling of what it had written.
      this.parts.log.doubt(turn.session);
      this.parts.logger.warn({ err: error, session_id: turn.session, turn_id: turn.turn }, 'turn left for recovery');
      if (refusesWrites(error)) this.parts.feed.strand(turn.session, error);
    });
    this.hold(turn, controller, done);
  }

  /** Folds the log of a session ahead of its next turn. */
  async warm(sessionId: string): Promise<void> {
    if (!this.states.has(sessionId)) await this.stateOf(sessionId, []);
  }

  beginStarted(started: StartedTurn, at: Date, whole: boolean): void {
    this.begin(started, startedEvents(started, at), { whole });
  }

  /** The turn of this session that runs here. */
  turnOf(sessionId: string): string | undefined {
    return this.sessions.get(sessionId);
  }

  /** How far the log goes that the turn of this session has read or written; 0 when that is not known. */
  seqOf(sessionId: string): number {
    return this.states.get(sessionId)?.seq ?? 0;
  }

  forget(sessionId: string): void {
    this.states.drop(sessionId);
  }

  /** Ends the turn as soon as it can be, whatever it is doing. */
  interrupt(turnId: string): void {
    const turn = this.running.get(turnId);
    if (turn === undefined) this.interruptedEarly.set(turnId, true);
    else turn.controller.abort(new InterruptReason('interrupted'));
  }

  /** Something of an org (its id), or of all (`*`), has changed: ends the turns that may not go on. */
  async recheck(change: string): Promise<void> {
    for (const [turnId, { orgId, sessionId }] of [...this.running]) {
      if (change !== '*' && orgId !== Number(change)) continue;
      const setting = await this.parts.settingFor(orgId, sessionId);
      if (setting !== undefined && !(await this.parts.mayRun(setting))) this.interrupt(turnId);
    }
  }

  /** Another process has taken the turn over: nothing more is done for it here. */
  lose(turnId: string): void {
    const turn = this.running.get(turnId);
    if (turn === undefined) return;
    this.states.drop(turn.sessionId);
    turn.controller.abort(new InterruptReason('released'));
  }

  /** Whether to act on an answer of the log. One that came late, to a process that was halted, may be outdated. */
  async mayAct(turnId: string, late: boolean): Promise<boolean> {
    return !late || this.parts.isHeld(turnId);
  }

  /** Lets go of every turn without ending it: another process, or the next start, goes on from the log. */
  async release(): Promise<void> {
    const turns = [...this.running.values()];
    for (const turn of turns) turn.controller.abort(new InterruptReason('released'));
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
    while (run !== undefined) run = await this.runAndTakeNext(run);
  }

  /** What waited behind the turn is held before the turn is let go: in between, the session would look as if nothing ran. */
  private async runAndTakeNext(run: Run): Promise<Run | undefined> {
    const { turn } = run;
    try {
      const next = await this.runOne(run);
      if (next === undefined) return undefined;
      this.hold(next.turn, next.controller, this.running.get(turn.turn)?.done ?? Promise.resolve());
      this.parts.feed.publish(next.turn.session, next.events);
      return next;
    } finally {
      this.running.delete(turn.turn);
      if (this.sessions.get(turn.session) === turn.turn) this.sessions.delete(turn.session);
    }
  }

  /** Runs one turn to its end or pause. Returns the one that waited behind it; none follows a pause or a turn that was lost. */
  private async runOne(run: Run): Promise<Run | undefined> {
    const { turn, controller } = run;
    const setting = await this.parts.settingFor(turn.org, turn.session);
    if (setting === undefined) return undefined;
    if (!(await this.parts.mayRun(setting))) this.interrupt(turn.turn);
    const state = await this.stateOf(turn.session, run.events);
    // A process that died may not have told what it wrote.
    if (run.recovered) this.parts.feed.lookAgain(turn.session, state.seq);
    const begun = performance.now();
    this.parts.onTurnTaken(setting, turn.turn);
    const timeout = setTimeout(() => controller.abort(new InterruptReason('timeout')), setting.timeoutSeconds * 1000);
    const world = run.whole ? { ...setting.world, isWatched: () => this.isWatched(turn.session) } : setting.world;
    let steps = runTurn(state, world, controller.signal, run.recovered);
    try {
      for (;;) {
        const step = await nextStep(steps, state, controller.signal, this.parts.logger, turn);
        if (step === undefined) return undefined;
        if (step.type === 'live') {
          this.show(turn.session, step.fragment);
          continue;
        }
        await this.onStoring(turn.session);
        const { point, applied } = await writeStep(this.parts, step, turn, state, setting);
        if (!(await this.take(turn, state, point, applied))) return undefined;
        if (applied.result.status === 'interrupted') {
          // The state knows of the interrupt now: the turn, run again over it, ends.
          steps = runTurn(state, world, controller.signal, false);
        } else if (point.type === 'commit') {
          if (applied.result.interrupted) controller.abort(new InterruptReason('interrupted'));
        } else {
          this.states.keepStill(turn.session, state);
          const milliseconds = performance.now() - begun;
          if (point.type === 'pause') return void this.parts.onTurnPaused(milliseconds);
          this.parts.onTurnEnded(setting, state, milliseconds);
          // Let go of as it ended: what waited behind it is as much another's to go on with.
          return isReleased(controller.signal.reason) ? undefined : this.following(turn, applied);
        }
      }
    } finally {
      clearTimeout(timeout);
      this.parts.feed.dropDrafts(turn.session);
      this.parts.onTurnLeft(turn.turn, state);
      await steps.return();
    }
  }

  private isWatched(sessionId: string): boolean {
    return this.parts.feed.isLive(sessionId) || this.isWatchedElsewhere(sessionId);
  }

  private show(sessionId: string, fragment: LiveFragment): void {
    this.parts.feed.publish(sessionId, [fragment]);
    this.onLive(sessionId, fragment);
  }

  /**
   * Publishes what was written and folds it in; what another process wrote in between is read first. False when the turn is no
   * longer ours.
   */
  private async take(turn: TurnIds, state: SessionState, step: CommitPoint, { result, at, late }: Applied): Promise<boolean> {
    const { seq } = result;
    if (seq === undefined || (step.type === 'commit' && late && !(await this.parts.isHeld(turn.turn)))) {
      this.states.drop(turn.session);
      return false;
    }
    if (seq > state.seq + 1) foldSession(await this.parts.log.read(turn.session, state.seq, seq - 1 - state.seq), state);
    const stored = numberEvents(result.status === 'interrupted' ? [] : step.events, turn.turn, seq, at);
    foldSession(stored, state);
    this.parts.feed.publish(turn.session, stored);
    return true;
  }

  private async following({ session }: TurnIds, { result: { next }, at, late }: Applied): Promise<Run | undefined> {
    if (!next) return undefined;
    if ('turn' in next) {
      if (!(await this.mayAct(next.turn, late))) return undefined;
      return { turn: next, events: startedEvents(next, at), recovered: false, controller: new AbortController(), whole: false };
    }
    this.parts.feed.lookAgain(session, next.endedThrough);
    return undefined;
  }

  private async stateOf(sessionId: string, events: StoredEvent[]): Promise<SessionState> {
    const known = this.states.get(sessionId);
    const next = events[0]?.seq ?? 0;
    const state = known !== undefined && known.seq < next ? known : emptyState();
    // What others wrote since is read: the notes of a gateway, or turns that ran in another process.
    if (state.seq === next - 1) foldSession(events, state);
    else for await (const page of this.parts.log.readAll(sessionId, state.seq)) foldSession(page, state);
    this.states.keep(sessionId, state);
    return state;
  }
}

function isReleased(reason: unknown): boolean {
  return reason instanceof InterruptReason && reason.reason === 'released';
}

/** The two events with which the log hands a turn to its runner. */
function startedEvents(started: StartedTurn, at: Date): StoredEvent[] {
  return numberEvents(
    [
      { type: 'message-received', data: started.input },
      { type: 'turn-started', data: { agent: started.agent } },
    ],
    started.turn,
    started.seq,
    at,
  );
}
