import type { Clock } from '../clock.ts';
import type { Database } from '../database/database.ts';
import type { Logger } from '../telemetry/logger.ts';
import { fanOut } from './fan-out.ts';
import { holdBack } from './held-back.ts';
import type { Lanes } from './lanes.ts';
import { bringForward, type ClaimedDelivery, claimDeliveries, fromTheBeginning, readWaiting } from './queue.ts';

export interface ScannerParts {
  database: Database;
  processId: string;
  clock: Clock;
  logger: Logger;
  leaseMs: number;
}

/** A clock that falls back by less than this was only adjusted. */
const setBackMs = 1_000;
const fullScanEveryMs = 1_000;
const maxShareOfFullScans = 0.05;
/** A row becomes visible at most about this long after the time that it carries: its commit takes a while, and clocks differ. */
const maxLatenessMs = 2_000;

/**
 * Finds what is due: a scan turns events into deliveries and claims as many of those that are due as there are slots for. Scans run
 * one after the other, as long as somebody wakes the scanner.
 */
export class Scanner {
  private readonly parts: ScannerParts;
  private readonly lanes: Lanes;
  private readonly begin: (delivery: ClaimedDelivery) => void;
  private scanning: Promise<void> | undefined;
  private wakeAgain = false;
  private wakeTimer: NodeJS.Timeout | undefined;
  private stopped = false;
  /** How long the last scan took, and from which times the next one looks. */
  private scanMs = 0;
  private since = fromTheBeginning;
  private nextFullScanAt = 0;
  /** How far the clock was ahead of `performance.now()`, which never jumps, at the last scan that found something. */
  private clockAhead = Number.POSITIVE_INFINITY;
  private whenIdle: (() => void)[] = [];

  /** `begin` is called with each claimed delivery. It adds it to the lanes, and removes it when it ends. */
  constructor(parts: ScannerParts, lanes: Lanes, begin: (delivery: ClaimedDelivery) => void) {
    this.parts = parts;
    this.lanes = lanes;
    this.begin = begin;
  }

  /** Something may be due: scan now. */
  wake(): void {
    if (this.stopped) return;
    this.wakeAgain = true;
    this.scanning ??= this.scanAll().finally(() => {
      this.scanning = undefined;
      this.settleIdle();
    });
  }

  /** Deliveries are due whose time was long ago: scan now, from the beginning. */
  wakeFully(): void {
    this.nextFullScanAt = 0;
    this.wake();
  }

  /**
   * A slot is free again. A scan for 200 destinations takes 20 ms on the embedded database, so attempts that end shortly
   * after each other share one: waiting twice as long as a scan takes keeps scans below a third of the time.
   */
  wakeSoon(): void {
    if (this.stopped || this.wakeTimer !== undefined) return;
    this.wakeTimer = setTimeout(
      () => {
        this.wakeTimer = undefined;
        this.wake();
      },
      Math.min(500, Math.max(5, 2 * this.scanMs)),
    );
  }

  /** Scans now, and resolves when nothing that is due by the clock is left, nor in the lanes. */
  async idle(): Promise<void> {
    this.wakeFully();
    await new Promise<void>((resolve) => {
      this.whenIdle.push(resolve);
    });
  }

  /** Resolves when the scan under way has ended; no other follows. */
  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.wakeTimer);
    await this.scanning;
  }

  private async scanAll(): Promise<void> {
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
    if (isFull) {
      this.since = fromTheBeginning;
      this.nextFullScanAt = Number.POSITIVE_INFINITY;
    }
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
    if (!isFull) return;
    // Earlier if it was asked for meanwhile: what has become due may be older than what this scan has seen.
    const next = performance.now() + Math.max(fullScanEveryMs, this.scanMs / maxShareOfFullScans);
    this.nextFullScanAt = Math.min(next, this.nextFullScanAt);
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
    const heldBack = claimed.filter(({ enabled, manual }) => !enabled && !manual);
    for (const delivery of claimed) if (!heldBack.includes(delivery)) this.begin(delivery);
    if (heldBack.length > 0) {
      await holdBack(database.db, processId, heldBack, now);
      // More may be due to the same endpoints.
      this.wakeAgain = true;
    }
    return oldest !== null && oldest < now ? oldest : now;
  }

  /** When the clock was set back, and at the first scan, deliveries may have been scheduled too late by the clock as it was before. */
  private async correctForClock(now: Date): Promise<void> {
    const ahead = now.getTime() - performance.now();
    if (ahead < this.clockAhead - setBackMs) await bringForward(this.parts.database.db, now);
    this.clockAhead = ahead;
  }

  private settleIdle(): void {
    if (this.lanes.size > 0 || this.scanning !== undefined || this.wakeAgain || this.wakeTimer !== undefined) return;
    for (const resolve of this.whenIdle.splice(0)) resolve();
  }
}

function shortlyBefore(time: Date): Date {
  return new Date(time.getTime() - maxLatenessMs);
}
