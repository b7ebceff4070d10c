import { type AttemptParts, attemptDelivery } from './attempt.ts';
import { AttemptRecorder, finishDeliveries } from './finish.ts';
import { listHalfResumed, resumeSome } from './held-back.ts';
import { defaultLimits, type LaneLimits, Lanes } from './lanes.ts';
import { bringForward, type ClaimedDelivery, releaseAllClaims, releaseClaims, renewClaims } from './queue.ts';
import { dropOldDeliveries } from './retention.ts';
import { Scanner, type ScannerParts } from './scanner.ts';

export interface CourierParts extends ScannerParts, AttemptParts {
  maxFailures: number;
  retentionDays: number;
  limits?: LaneLimits;
  pollMs?: number;
}

const retentionEveryMs = 3_600_000;
/** How long a stopping process lets its attempts go on, before it aborts them and leaves them to another process. */
const stopGraceMs = 1_000;

/**
 * Sends what the outbox holds. The scanner claims the deliveries that are due; the courier attempts each and records the outcome. Each
 * delivery is sent at least once: if the process dies, its claims are due again when their lease ends.
 */
export class Courier {
  /** Attempts of this process that the receiver accepted, and those that it did not. */
  delivered = 0;
  failed = 0;
  private readonly parts: CourierParts;
  private readonly lanes: Lanes;
  private readonly scanner: Scanner;
  private readonly recorder: AttemptRecorder;
  /** What has to end before the process does. */
  private readonly underWay = new Set<Promise<void>>();
  private readonly cutOff = new AbortController();
  private readonly timers: NodeJS.Timeout[] = [];
  private stopped = false;

  constructor(parts: CourierParts) {
    this.parts = parts;
    this.lanes = new Lanes(parts.limits ?? defaultLimits);
    this.scanner = new Scanner(parts, this.lanes, (delivery) => this.begin(delivery));
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

  /** Something may be due: look now. */
  wake(): void {
    this.scanner.wake();
  }

  /** Looks now, and resolves when nothing that is due by the clock is left unsent. */
  idle(): Promise<void> {
    return this.scanner.idle();
  }

  /**
   * Makes those deliveries due that were held back while their endpoint was disabled. If there are many, most of them in the background;
   * what is left when the process ends, at the next start.
   */
  async resume(endpointId: number): Promise<void> {
    const isMore = await resumeSome(this.parts.database.db, endpointId);
    this.scanner.wakeFully();
    if (!isMore || this.stopped) return;
    const rest = this.resume(endpointId)
      .catch((error: unknown) => this.parts.logger.warn({ err: error }, 'could not make deliveries due; will retry'))
      .finally(() => this.underWay.delete(rest));
    this.underWay.add(rest);
  }

  async stop(): Promise<void> {
    this.stopped = true;
    for (const timer of this.timers) clearInterval(timer);
    await this.scanner.stop();
    const grace = setTimeout(() => this.cutOff.abort(new Error('The server is stopping.')), stopGraceMs);
    await Promise.all(this.underWay);
    clearTimeout(grace);
    try {
      await releaseClaims(this.parts.database.db, this.parts.processId, this.parts.clock.now());
    } catch (error) {
      // A process must be able to stop without its database: the leases end by themselves.
      this.parts.logger.warn({ err: error }, 'could not release deliveries');
    }
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
        this.underWay.delete(sent);
        this.scanner.wakeSoon();
      });
    this.underWay.add(sent);
  }

  /** Whether the lane is well: false if the receiver did not accept the delivery. */
  private async send(delivery: ClaimedDelivery): Promise<boolean> {
    const startedAt = this.parts.clock.now();
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
      for (const endpointId of await listHalfResumed(database.db)) await this.resume(endpointId);
      await dropOldDeliveries(database.db, retentionDays);
    } catch (error) {
      // `stop` does not wait for this, so the database may already be closed. The next start continues.
      if (!this.stopped) logger.warn({ err: error }, 'could not look after deliveries; will retry');
    }
  }
}
