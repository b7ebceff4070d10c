import type { Clock } from '../clock.ts';
import type { Database } from '../database/database.ts';
import type { Logger } from '../telemetry/logger.ts';
import { type AttemptParts, attemptDelivery } from './attempt.ts';
import { fanOut } from './fan-out.ts';
import { AttemptRecorder, finishDeliveries } from './finish.ts';
import { defaultLimits, type LaneLimits, Lanes } from './lanes.ts';
import {
  bringForward,
  type ClaimedDelivery,
  claimDeliveries,
  fromTheBeginning,
  parkDelivery,
  readWaiting,
  releaseAllClaims,
  releaseClaims,
  renewClaims,
} from './queue.ts';
import { dropOldDeliveries } from './retention.ts';

export interface CourierParts extends AttemptParts {
  database: Database;
  processId: string;
  clock: Clock;
  logger: Logger;
  maxFailures: number;
  leaseMs: number;
  retentionDays: number;
  limits?: LaneLimits;
  pollMs?: number;
}

const retentionEveryMs = 3_600_000;
/** How long a stopping process lets its attempts go on, before it aborts them and leaves them to another process. */
const stopGraceMs = 1_000;
/** A clock that falls back by less than this was only adjusted. */
const setBackMs = 1_000;
const fullScanEveryMs = 1_000;
const maxShareOfFullScans = 0.05;
/** A row becomes visible at most about this long after the time that it carries: its commit takes a while, and clocks differ. */
const maxLatenessMs = 2_000;

/**
 * Sends what the outbox holds. It turns events into deliveries, claims the deliveries that are due, attempts each and
 * records the outcome. Each delivery is sent at least once: if the process dies, its claims are due again when their lease
 * ends.
 */
export class Courier {
  /** Attempts of this process that the receiver accepted, and those that it did not. */
  delivered = 0;
  failed = 0;
  private readonly parts: CourierParts;
  private readonly lanes: Lanes;
  private readonly timers: NodeJS.Timeout[] = [];
  private stopped = false;

  // Finding what is due: one loop of scans (`pump`), which wakes keep going.
  private pumping: Promise<void> | undefined;
  private wakeAgain = false;
  private wakeTimer: NodeJS.Timeout | undefined;
  /** How long the last scan took, and from which times the next one looks. */
  private scanMs = 0;
  private since = fromTheBeginning;
  private nextFullScanAt = 0;
  /** How far the clock was ahead of `performance.now()`, which never jumps, at the last scan that found something. */
  private clockAhead = Number.POSITIVE_INFINITY;
  private whenIdle: (() => void)[] = [];

  // Sending it, and recording what became of it.
  private readonly sending = new Set<Promise<void>>();
  private readonly cutOff = new AbortController();
  private readonly recorder: AttemptRecorder;

  constructor(parts: CourierParts) {
    this.parts = parts;
    this.lanes = new Lanes(parts.limits ?? defaultLimits);
    const { database, processId, clock, maxFailures } = parts;
    this.recorder = new AttemptRecorder((batch) => finishDeliveries(database.db, processId, batch, clock.now(), maxFailures));
  }

  /** Attempts under way. */
  get running(): number {
    return this.lanes.size;
  }

  async start(): Promise<void> {
    const { database, clock, leaseMs, pollMs = 1_000 } = this.parts;
    if (database.engine === 'pglite') {
      await releaseAllClaims(database.db, clock.now());
      // On PostgreSQL `turn/peers.ts` hears the notices of all processes and wakes the courier.
      await database.listen(() => this.wake());
    }
    this.timers.push(setInterval(() => this.wake(), pollMs));
    this.timers.push(setInterval(() => void this.renew(), Math.max(100, leaseMs / 4)));
    this.timers.push(setInterval(() => void this.dropOld(), retentionEveryMs));
    for (const timer of this.timers) timer.unref();
    void this.dropOld();
    this.wake();
  }

  /** Something may be due: scan now. */
  wake(): void {
    if (this.stopped) return;
    this.wakeAgain = true;
    this.pumping ??= this.pump().finally(() => {
      this.pumping = undefined;
      this.settleIdle();
    });
  }

  /**
   * A slot is free again. A scan for 200 destinations takes 20 ms on the embedded database, so attempts that end shortly
   * after each other share one: waiting twice as long as a scan takes keeps scans below a third of the time.
   */
  private wakeSoon(): void {
    if (this.stopped || this.wakeTimer !== undefined) return;
    this.wakeTimer = setTimeout(
      () => {
        this.wakeTimer = undefined;
        this.wake();
      },
      Math.min(500, Math.max(5, 2 * this.scanMs)),
    );
  }

  /** Scans now, and resolves when nothing that is due by the clock is left unsent. */
  async idle(): Promise<void> {
    this.nextFullScanAt = 0;
    this.wake();
    await new Promise<void>((resolve) => {
      this.whenIdle.push(resolve);
    });
  }

  async stop(): Promise<void> {
    this.stopped = true;
    for (const timer of this.timers) clearInterval(timer);
    clearTimeout(this.wakeTimer);
    await this.pumping;
    const grace = setTimeout(() => this.cutOff.abort(new Error('The server is stopping.')), stopGraceMs);
    await Promise.all(this.sending);
    clearTimeout(grace);
    try {
      await releaseClaims(this.parts.database.db, this.parts.processId, this.parts.clock.now());
    } catch (error) {
      // A process must be able to stop without its database: the leases end by themselves.
      this.parts.logger.warn({ err: error }, 'could not release deliveries');
    }
  }

  private async pump(): Promise<void> {
    try {
      while (this.wakeAgain && !this.stopped) {
        this.wakeAgain = false;
        await this.scan();
      }
    } catch (error) {
      this.wakeAgain = false;
      this.nextFullScanAt = 0;
      this.parts.logger.warn({ err: error }, 'could not look for due deliveries');
    }
  }

  /**
   * Most scans begin where the last one ended, which keeps them cheap (see `Since`). A full scan now and then finds rows that
   * were committed later than usual, or with an older time.
   */
  private async scan(): Promise<void> {
    const { database, clock } = this.parts;
    const begun = performance.now();
    const isFull = begun >= this.nextFullScanAt;
    if (isFull) this.since = fromTheBeginning;
    const now = clock.now();
    const waiting = await readWaiting(database.db, this.since);
    const isAnyWaiting = waiting.events || waiting.deliveries;
    if (isAnyWaiting) await this.correctForClock(now);
    const areEventsTaken = !waiting.events || (await fanOut(database.db, now, this.since.events));
    if (!areEventsTaken) this.wakeAgain = true;
    const oldest = isAnyWaiting ? await this.claim(now) : now;
    this.since = {
      events: areEventsTaken ? shortlyBefore(now) : this.since.events,
      deliveries: oldest === undefined ? this.since.deliveries : shortlyBefore(oldest),
    };
    this.scanMs = performance.now() - begun;
    if (isFull) this.nextFullScanAt = performance.now() + Math.max(fullScanEveryMs, this.scanMs / maxShareOfFullScans);
  }

  /**
   * Claims and begins what is due, as far as there are slots. Returns the time from which deliveries may still be waiting, or
   * undefined if no slot was free to look for any.
   */
  private async claim(now: Date): Promise<Date | undefined> {
    const { database, processId, leaseMs } = this.parts;
    const slots = this.lanes.slots();
    if (slots.healthy + slots.troubled === 0) return undefined;
    const { claimed, oldest } = await claimDeliveries(database.db, {
      processId,
      now,
      since: this.since.deliveries,
      leaseUntil: new Date(now.getTime() + leaseMs),
      slots,
      running: this.lanes.ids(),
      lanes: this.lanes.loads(),
      organizations: this.lanes.orgLoads(),
    });
    for (const delivery of claimed) this.begin(delivery);
    return oldest !== null && oldest < now ? oldest : now;
  }

  /** When the clock was set back, and at the first scan, deliveries may have been scheduled too late by the clock as it was before. */
  private async correctForClock(now: Date): Promise<void> {
    const ahead = now.getTime() - performance.now();
    if (ahead < this.clockAhead - setBackMs) await bringForward(this.parts.database.db, now);
    this.clockAhead = ahead;
  }

  private begin(delivery: ClaimedDelivery): void {
    this.lanes.begin(delivery.id, delivery.lane, delivery.org_id);
    const sent = this.send(delivery)
      .catch((error: unknown) => {
        this.parts.logger.warn({ err: error, delivery: delivery.id }, 'could not record a delivery; it is due again when its lease ends');
        return false;
      })
      .then((succeeded) => {
        this.lanes.end(delivery.id, succeeded);
        this.sending.delete(sent);
        this.wakeSoon();
      });
    this.sending.add(sent);
  }

  /** Whether the lane is well: false if the receiver did not accept the delivery. */
  private async send(delivery: ClaimedDelivery): Promise<boolean> {
    const { database, clock, processId } = this.parts;
    if (!delivery.enabled && !delivery.manual) {
      await parkDelivery(database.db, processId, delivery.id, clock.now());
      return true;
    }
    const startedAt = clock.now();
    const outcome = await attemptDelivery(delivery, startedAt, this.parts, this.cutOff.signal);
    // We aborted it because the process stops: that is no failure of the receiver, and nothing to record.
    if (outcome.status === null && this.cutOff.signal.aborted) return false;
    await this.recorder.record({ delivery, outcome, startedAt });
    if (outcome.ok) this.delivered += 1;
    else this.failed += 1;
    return outcome.ok;
  }

  private async renew(): Promise<void> {
    const { database, processId, clock, leaseMs, logger } = this.parts;
    const ids = this.lanes.ids();
    if (ids.length === 0) return;
    try {
      await renewClaims(database.db, processId, new Date(clock.now().getTime() + leaseMs), ids);
    } catch (error) {
      logger.warn({ err: error }, 'could not renew claims on deliveries');
    }
  }

  private async dropOld(): Promise<void> {
    const { database, clock, retentionDays, logger } = this.parts;
    try {
      // For deliveries scheduled too late by a process that ended before it noticed that its clock was set back.
      await bringForward(database.db, clock.now());
      await dropOldDeliveries(database.db, retentionDays);
    } catch (error) {
      // `stop` does not wait for this, so the database may already be closed. The next start continues.
      if (!this.stopped) logger.warn({ err: error }, 'could not delete old deliveries');
    }
  }

  private settleIdle(): void {
    if (this.lanes.size > 0 || this.pumping !== undefined || this.wakeAgain || this.wakeTimer !== undefined) return;
    for (const resolve of this.whenIdle.splice(0)) resolve();
  }
}

function shortlyBefore(time: Date): Date {
  return new Date(time.getTime() - maxLatenessMs);
}
