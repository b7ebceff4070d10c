import type { Directory } from '../accounts/directory.ts';
import { requireMaterialized } from '../accounts/releases.ts';
import type { Database } from '../database/database.ts';
import { notFound, orNotFound, ServiceError } from '../errors.ts';
import { countTokens } from '../harness/models/estimate-tokens.ts';
import { newId } from '../ids.ts';
import type { ReleaseConfig } from '../release-config.ts';
import { listAbandonedSessions } from '../session/approvals.ts';
import type { ApprovalDecision, MessageReceived, NewEvent, RequestEcho } from '../session/events.ts';
import type { Feed } from '../session/feed.ts';
import { numberEvents, type SessionLog, startedEvents } from '../session/log.ts';
import type { InterruptOperation, Reservation, ResultOf } from '../session/operations.ts';
import { checkBudget } from './budget.ts';
import { admissionError, inputMismatch } from './failure.ts';
import { findTurn } from './find-turns.ts';
import { TurnPlaces } from './places.ts';
import type { Runner } from './runner.ts';
import type { SessionSetting, Settings } from './settings.ts';
import { subscribeAgain, type WatchableTurn } from './watch.ts';

/** Abandoned sessions that are stopped together, at most: few, and a quarter of the turns that a process may run where these are few too. */
const mostStoppedAtOnce = 16;

interface TurnsParts {
  database: Database;
  log: SessionLog;
  feed: Feed;
  runner: Runner;
  settings: Settings;
  directory: Directory;
  limits: { maxTurns: number; reservationTokens: number };
}

export interface Admission {
  message: Omit<MessageReceived, 'messageId'>;
  endUserId?: string | undefined;
  /** What the caller is shown: the text as it comes, the whole answer at the end, or nothing, because others watch the turn. */
  shows: 'live' | 'whole' | 'nothing';
  /** Queue behind a pending approval instead of being refused. */
  waitsForApproval?: boolean;
  fingerprint?: string | undefined;
  /** The client library says that it sent the request before: if a turn has its fingerprint, no other is started. */
  isRetry?: boolean;
  idempotency?: { key: string; fingerprint: string } | undefined;
}

/** The answer to a pending approval. */
export interface ApprovalAnswer {
  requestId: string;
  decision: ApprovalDecision;
  /** Whether the caller shows the rest of the turn as it comes. */
  live?: boolean;
  echo?: RequestEcho;
}

/** Everything a surface can do to a conversation. Each method makes one short write; the runner does the rest. */
export class Turns {
  private readonly parts: TurnsParts;
  private readonly places: TurnPlaces;
  /** Set while the process drains: it finishes its turns and takes no more. */
  draining = false;
  /** Messages, answers to approvals and interrupts that are being written. */
  private readonly writing = new Set<Promise<unknown>>();
  /** Called when a session was stopped, so that other processes also close what they hold open for it. */
  onStopped: (sessionId: string) => void = () => {};

  constructor(parts: TurnsParts) {
    this.parts = parts;
    this.places = new TurnPlaces(parts.limits.maxTurns, parts.runner.running);
  }

  /** Stores the message, and starts its turn or queues it behind the session's turn. If it throws, nothing was written. */
  admit(orgId: number, sessionId: string, admission: Admission): Promise<WatchableTurn & { replayed: boolean }> {
    return this.noted(this.store(orgId, sessionId, admission));
  }

  private async store(orgId: number, sessionId: string, admission: Admission): Promise<WatchableTurn & { replayed: boolean }> {
    const setting = orNotFound(await this.parts.settings.of(orgId, sessionId));
    assertSubAgent(setting.world.release, admission.message.agent);
    await this.assertRunnable(setting);
    this.assertNotDraining();
    // A message that is queued needs no place: its turn takes over that of the turn before it.
    const place = this.parts.runner.turnOf(sessionId) === undefined ? this.places.take(orgId) : undefined;
    const isLive = admission.shows === 'live';
    const subscription = this.parts.feed.subscribe(sessionId, isLive);
    try {
      const turnId = newId('turn_');
      const { result, at, late } = await this.parts.log.apply({
        kind: 'admit',
        org: orgId,
        session: sessionId,
        turn: turnId,
        input: { messageId: newId('msg_'), ...admission.message, ...(setting.pricing.isOnOwnKeys() ? { onOwnKeys: true } : {}) },
        endUserId: admission.endUserId ?? setting.endUserId,
        fingerprint: admission.fingerprint,
        ...(admission.isRetry ? { isRetry: true } : {}),
        idempotencyKey: admission.idempotency?.key,
        idempotencyFingerprint: admission.idempotency?.fingerprint,
        waitsForApproval: admission.waitsForApproval ?? false,
        ...this.reservation(setting, admission.message.text),
      });
      switch (result.status) {
        case 'started': {
          const { started } = result;
          const mayBegin = await this.parts.runner.mayAct(turnId, late);
          const whole = admission.shows === 'whole';
          if (mayBegin) this.parts.runner.begin(started, startedEvents(started, at), { late, whole });
          return { sessionId, turnId, after: started.seq - 1, replay: !mayBegin, subscription, replayed: false };
        }
        case 'queued':
          // The turn before it may run in another process, which then runs this one too and has to send its live text here.
          if (isLive) this.parts.feed.onWatched(sessionId);
          return { sessionId, turnId, after: result.after, replay: true, subscription, replayed: false };
        case 'replayed':
          subscription.close();
          return { ...(await this.subscribeTo(result.turn, isLive)), replayed: true };
        default:
          throw admissionError(result);
      }
    } catch (error) {
      subscription.close();
      throw error;
    } finally {
      place?.leave();
    }
  }

  /**
   * Opens the session of a turn while a place is held for that turn. Throws, and opens none, if this process has no place for the
   * organization: otherwise sessions would be opened, and told of by webhooks, for turns that are then refused.
   */
  async withPlace<Result>(orgId: number, work: () => Promise<Result>): Promise<Result> {
    this.assertNotDraining();
    const place = this.places.take(orgId);
    try {
      return await work();
    } finally {
      // The admission takes a place again. No other request can be first, as long as what the admission reads before is in memory.
      place.leave();
    }
  }

  /** Answers a pending approval. Returns the turn, to be watched from its beginning; `resolvedSeq` is the seq of the answer in it. */
  async resolve(orgId: number, sessionId: string, answer: ApprovalAnswer): Promise<WatchableTurn & { resolvedSeq: number }> {
    const { live = false } = answer;
    const setting = orNotFound(await this.parts.settings.of(orgId, sessionId));
    // The turn would be left for recovery, which could not tell whether the approved call was run.
    this.assertNotDraining();
    const { turn, seq } = await this.noted(this.answer(setting, answer));
    return { ...(await this.subscribeTo(turn, live)), resolvedSeq: seq, restAfter: seq };
  }

  /** Resolves when every message, answer to an approval and interrupt that is being written now has its turn running, or was refused. */
  async written(): Promise<void> {
    await Promise.allSettled(this.writing);
  }

  private noted<Result>(work: Promise<Result>): Promise<Result> {
    this.writing.add(work);
    return work.finally(() => this.writing.delete(work));
  }

  /** Writes the answer and goes on with the turn. */
  private async answer(setting: SessionSetting, { requestId, decision, echo }: ApprovalAnswer): Promise<{ turn: string; seq: number }> {
    const { orgId, sessionId } = setting;
    await this.parts.runner.leaveLost(sessionId);
    const { result, at, late } = await this.parts.log.apply({
      kind: 'resolve',
      org: orgId,
      session: sessionId,
      requestId,
      decision,
      ...(echo === undefined ? {} : { input: { echo } }),
      ...this.reservation(setting, ''),
    });
    if (result.status === 'not-found') throw notFound();
    if (result.status === 'mismatch') throw inputMismatch('This request is not pending.');
    if (result.status === 'different') throw inputMismatch('This request was already answered differently.');
    const { turn, seq } = result;
    if (result.status === 'resumed' && (await this.parts.runner.mayAct(turn, late))) {
      const events: NewEvent[] = [
        { type: 'approval-resolved', data: { requestId, callId: result.callId, decision, ...(echo === undefined ? {} : { echo }) } },
        { type: 'turn-resumed', data: { agent: result.agent } },
      ];
      // Before anything else is waited for: if that failed, the turn would be left for recovery too.
      this.parts.runner.begin({ turn, session: sessionId, org: orgId }, numberEvents(events, turn, seq, at), { late });
    }
    return { turn, seq };
  }

  /** Interrupts the running or paused turn, if there is one; `stop` also closes the session to further messages. */
  async interrupt(orgId: number, sessionId: string, kind: 'interrupt' | 'stop'): Promise<void> {
    const reason = kind === 'stop' ? 'stop' : 'user';
    await this.noted(this.applyInterrupt({ kind, org: orgId, session: sessionId, reason }));
  }

  /**
   * Interrupts this turn and no other. One that waits will not run; its end is in the log when those ahead of it have ended. One that
   * has paused or ended stays as it is. Returns whether the turn waits.
   */
  async cancel(orgId: number, sessionId: string, turnId: string): Promise<boolean> {
    const operation = { kind: 'interrupt', org: orgId, session: sessionId, reason: 'user', turn: turnId } as const;
    return (await this.noted(this.applyInterrupt(operation))) === 'queued';
  }

  private async applyInterrupt(operation: InterruptOperation): Promise<ResultOf<InterruptOperation>['status']> {
    const { org: orgId, session: sessionId, reason } = operation;
    await this.parts.runner.leaveLost(sessionId);
    const { result, at, late } = await this.parts.log.apply(operation);
    if (result.status === 'not-found') throw notFound();
    if (operation.kind === 'stop') {
      this.parts.settings.forget(sessionId);
      this.onStopped(sessionId);
    }
    if (!('turn' in result)) return result.status;
    const events = numberEvents([{ type: 'interrupt-requested', data: { reason } }], result.turn, result.seq, at);
    if (result.status === 'resumed') this.parts.runner.begin({ turn: result.turn, session: sessionId, org: orgId }, events, { late });
    else this.parts.feed.publish(sessionId, events);
    this.parts.runner.interrupt(result.turn);
    return result.status;
  }

  /**
   * Stops sessions that wait for an approval and whose agent, this one or any, was deleted: a few at a time, because each takes a turn's
   * place until it has ended. A session for which this fails is tried again at the next sweep, and so are all that are left when a few
   * fail together or the process drains.
   */
  async stopAbandoned(agentId?: number): Promise<void> {
    const abandoned = await listAbandonedSessions(this.parts.database.db, agentId);
    const atOnce = Math.min(mostStoppedAtOnce, Math.ceil(this.parts.limits.maxTurns / 4));
    for (let first = 0; first < abandoned.length && !this.draining; first += atOnce) {
      const stopped = abandoned.slice(first, first + atOnce).map(({ id, orgId }) => this.stopAndEnd(orgId, id));
      const outcomes = await Promise.allSettled(stopped);
      if (outcomes.every(({ status }) => status === 'rejected')) return;
    }
  }

  private async stopAndEnd(orgId: number, sessionId: string): Promise<void> {
    await this.interrupt(orgId, sessionId, 'stop');
    const turnId = this.parts.runner.turnOf(sessionId);
    if (turnId !== undefined) await this.parts.runner.running.get(turnId)?.done;
  }

  /** Adds messages that no turn answers. */
  async note(orgId: number, sessionId: string, events: NewEvent[]): Promise<void> {
    const turnId = newId('turn_');
    const { result, at } = await this.parts.log.apply({
      kind: 'note',
      org: orgId,
      session: sessionId,
      turn: turnId,
      events,
      messages: events.length,
    });
    if (result.status !== 'done') throw admissionError({ status: result.stopped ? 'stopped' : 'not-found' });
    this.parts.feed.publish(sessionId, numberEvents(events, turnId, result.seq, at));
  }

  /** A turn that began earlier, to be watched from its first event on, wherever it runs. */
  async subscribeTo(turnId: string, live: boolean): Promise<WatchableTurn> {
    const { sessionId, after } = orNotFound(await findTurn(this.parts.database.db, turnId));
    return subscribeAgain(this.parts.feed, sessionId, turnId, after, live);
  }

  /** Throws when the session's release cannot run. The contract orders the checks: budget before release. */
  private async assertRunnable(setting: SessionSetting): Promise<void> {
    const agent = await this.parts.directory.agentById(setting.orgId, setting.agentId);
    const release =
      agent === undefined ? undefined : await this.parts.directory.release(setting.orgId, setting.agentId, setting.releaseVersion);
    if (release?.state === 'materialized') return;
    await checkBudget(this.parts.database.db, setting, setting.pricing.needsCredits());
    requireMaterialized(release);
  }

  private assertNotDraining(): void {
    if (this.draining) throw new ServiceError('unavailable', 'The server is shutting down.', { retryAfterSeconds: 1 });
  }

  private reservation(setting: SessionSetting, text: string): Reservation {
    const tokens = this.parts.limits.reservationTokens + countTokens(text.length);
    const { costMicros, creditMicros } = setting.pricing.priceAtMost(tokens);
    return { reserveTokens: tokens, reserveMicros: costMicros, reserveCreditMicros: creditMicros };
  }
}

function assertSubAgent(release: ReleaseConfig, name: string | undefined): void {
  if (name === undefined || release.agents.some((agent) => agent.name === name)) return;
  throw new ServiceError('invalid', `agent: the release has no sub-agent named ${name}`);
}
