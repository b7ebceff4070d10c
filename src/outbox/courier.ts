import type { Clock } from '../clock.ts';
import type { Database } from '../database/database.ts';
import type { Logger } from '../telemetry/logger.ts';
import { type AttemptParts, attemptDelivery } from './attempt.ts';
import { fanOut } from './fan-out.ts';
import { type Finished, finishDeliveries } from './finish.ts';
import { defaultLimits, type LaneLimits, Lanes } from './lanes.ts';
import {
  bringForward,
  type Claimed,
  claimDeliveries,
  everything,
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
/** How long attempts may go on when the process stops, before they are left to another. */
const patienceMs = 1_000;
const setBackMs = 1_000;
const wholeLookEveryMs = 1_000;
const maxShareOfWholeLooks = 0.05;
/** A transaction takes about this long at most from the time that it writes down to its commit, and clocks differ by no more. */
const lateMs = 2_000;

/**
 * Sends what the outbox holds: makes deliveries of events, claims those that are due, attempts each and writes down how it
 * went. At least once: what a process that dies had claimed is due again when its lease ends.
 */
export class Courier {
  /** Attempts that ended here, by whether the receiver took it. */
  delivered = 0;
  failed = 0;
  private readonly parts: CourierParts;
  private readonly lanes: Lanes;
  private readonly cutOff = new AbortController();
  private readonly timers: NodeJS.Timeout[] = [];
  private finished: Finished[] = [];
  private writing: Promise<void> = Promise.resolve();
  private nextWrite: Promise<void> | undefined;
  private pumping: Promise<void> | undefined;
  private wakeAgain = false;
  private soon: NodeJS.Timeout | undefined;
  private lookMs = 0;
  private since = everything;
  private wholeLookAt = 0;
  /** The clock less one that never jumps, when last looked at: it is less when the clock was set back. */
  private clockAhead = Number.POSITIVE_INFINITY;
  private stopped = false;
  private readonly sending = new Set<Promise<void>>();
  private whenIdle: (() => void)[] = [];

  constructor(parts: CourierParts) {
    this.parts = parts;
    this.lanes = new Lanes(parts.limits ?? defaultLimits);
  }

  /** Attempts under way. */
  get running(): number {
    return this.lanes.size;
  }

  async start(): Promise<void> {
    const { database, clock, leaseMs, pollMs = 1_000 } = this.parts;
    if (database.engine === 'pglite') {
      await releaseAllClaims(database.db, clock.now());
      // Alone on its data, it hears its own commits; elsewhere the notices of all processes come in one place.
      await database.listen(() => this.wake());
    }
    this.timers.push(setInterval(() => this.wake(), pollMs));
    this.timers.push(setInterval(() => void this.renew(), Math.max(100, leaseMs / 4)));
    this.timers.push(setInterval(() => void this.dropOld(), retentionEveryMs));
    for (const timer of this.timers) timer.unref();
    void this.dropOld();
    this.wake();
  }

  /** Something may be due: look now. */
  wake(): void {
    if (this.stopped) return;
    this.wakeAgain = true;
    this.pumping ??= this.pump().finally(() => {
      this.pumping = undefined;
      this.settleIdle();
    });
  }

  /**
   * Slots were freed. A look for 200 destinations costs 20 ms on the embedded database, so not every attempt that ends is
   * worth one: those that end meanwhile share it, and looking takes a third of the time at most.
   */
  private wakeSoon(): void {
    if (this.stopped || this.soon !== undefined) return;
    this.soon = setTimeout(
      () => {
        this.soon = undefined;
        this.wake();
      },
      Math.min(500, Math.max(5, 2 * this.lookMs)),
    );
  }

  /** Looks now, and resolves when nothing that is due by the clock is left unsent. */
  async idle(): Promise<void> {
    this.wholeLookAt = 0;
    this.wake();
    await new Promise<void>((resolve) => {
      this.whenIdle.push(resolve);
    });
  }

  async stop(): Promise<void> {
    this.stopped = true;
    for (const timer of this.timers) clearInterval(timer);
    clearTimeout(this.soon);
    await this.pumping;
    const cut = setTimeout(() => this.cutOff.abort(new Error('The server is stopping.')), patienceMs);
    await Promise.all(this.sending);
    clearTimeout(cut);
    try {
      await releaseClaims(this.parts.database.db, this.parts.processId, this.parts.clock.now());
    } catch (error) {
      // A database that is gone keeps nobody from stopping: the claims run out by themselves.
      this.parts.logger.warn({ err: error }, 'could not release deliveries');
    }
  }

  private async pump(): Promise<void> {
    try {
      while (this.wakeAgain && !this.stopped) {
        this.wakeAgain = false;
        await this.look();
      }
    } catch (error) {
      this.wakeAgain = false;
      this.wholeLookAt = 0;
      this.parts.logger.warn({ err: error }, 'could not look for due deliveries');
    }
  }

  /** Most looks begin where the last one ended. What was committed late, or under an older time, is found by the next whole one. */
  private async look(): Promise<void> {
    const { database, clock } = this.parts;
    const begun = performance.now();
    const isWhole = begun >= this.wholeLookAt;
    if (isWhole) this.since = everything;
    const now = clock.now();
    const waiting = await readWaiting(database.db, this.since);
    const isAnything = waiting.events || waiting.deliveries;
    if (isAnything) await this.noticeClock(now);
    const areEventsTaken = !waiting.events || (await fanOut(database.db, now, this.since.events));
    if (!areEventsTaken) this.wakeAgain = true;
    const oldest = isAnything ? await this.claim(now) : now;
    this.since = {
      events: areEventsTaken ? shortlyBefore(now) : this.since.events,
      deliveries: oldest === undefined ? this.since.deliveries : shortlyBefore(oldest),
    };
    this.lookMs = performance.now() - begun;
    if (isWhole) this.wholeLookAt = performance.now() + Math.max(wholeLookEveryMs, this.lookMs / maxShareOfWholeLooks);
  }

  /** Begins what is due, as far as there are slots. Returns since when deliveries may wait; undefined: nobody looked. */
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

  /** At the start and whenever the clock is set back, deliveries may wait for a time that was never meant. */
  private async noticeClock(now: Date): Promise<void> {
    const ahead = now.getTime() - performance.now();
    if (ahead < this.clockAhead - setBackMs) await bringForward(this.parts.database.db, now);
    this.clockAhead = ahead;
  }

  private begin(delivery: Claimed): void {
    this.lanes.begin(delivery.id, delivery.lane, delivery.org_id);
    const sent = this.send(delivery)
      .catch((error: unknown) => {
        this.parts.logger.warn({ err: error, delivery: delivery.id }, 'could not record a delivery; it is due again when its lease ends');
        return false;
      })
      .then((well) => {
        this.lanes.end(delivery.id, well);
        this.sending.delete(sent);
        this.wakeSoon();
      });
    this.sending.add(sent);
  }

  /** True when the receiver took it. */
  private async send(delivery: Claimed): Promise<boolean> {
    const { database, clock, processId } = this.parts;
    if (!delivery.enabled && !delivery.manual) {
      await parkDelivery(database.db, processId, delivery.id);
      return true;
    }
    const startedAt = clock.now();
    const outcome = await attemptDelivery(delivery, startedAt, this.parts, this.cutOff.signal);
    // Cut off by our own stopping: not the receiver's failure, and not an attempt that ended.
    if (outcome.status === null && this.cutOff.signal.aborted) return false;
    await this.write({ delivery, outcome, startedAt });
    if (outcome.ok) this.delivered += 1;
    else this.failed += 1;
    return outcome.ok;
  }

  /** Results that come while others are being written go together in the next write. */
  private write(entry: Finished): Promise<void> {
    this.finished.push(entry);
    if (this.nextWrite !== undefined) return this.nextWrite;
    const { database, processId, clock, maxFailures } = this.parts;
    this.nextWrite = this.writing
      .catch(() => {})
      .then(() => {
        this.nextWrite = undefined;
        const batch = this.finished;
        this.finished = [];
        return finishDeliveries(database.db, processId, batch, clock.now(), maxFailures);
      });
    this.writing = this.nextWrite;
    return this.nextWrite;
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
      // For deliveries put off by a process that ended before it noticed that its clock was set back.
      await bringForward(database.db, clock.now());
      await dropOldDeliveries(database.db, retentionDays);
    } catch (error) {
      // Stopping does not wait for this: the next start goes on with it.
      if (!this.stopped) logger.warn({ err: error }, 'could not delete old deliveries');
    }
  }

  private settleIdle(): void {
    if (this.lanes.size > 0 || this.pumping !== undefined || this.wakeAgain || this.soon !== undefined) return;
    for (const resolve of this.whenIdle.splice(0)) resolve();
  }
}

function shortlyBefore(time: Date): Date {
  return new Date(time.getTime() - lateMs);
}
