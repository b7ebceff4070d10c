import { ServiceError } from '../errors.ts';

/** An organization counts as being about for this long after it last asked for a turn. */
const aboutMs = 60_000;

/** A turn that is being admitted. Leaving is also due when it has begun: from then on it is counted as running. */
export interface TurnPlace {
  leave(): void;
}

/**
 * How many turns this process may have, running or being admitted. The last tenth of them is kept for those who have less than
 * their share, an equal one for each organization that is about: turns of one that take an hour would keep all others out for as
 * long. Whoever is alone has all.
 */
export class TurnPlaces {
  private readonly max: number;
  private readonly running: ReadonlyMap<string, { orgId: number }>;
  private readonly admitting = new Set<{ orgId: number }>();
  /** When each organization last asked for a turn, the latest last. */
  private readonly about = new Map<number, number>();

  constructor(max: number, running: ReadonlyMap<string, { orgId: number }>) {
    this.max = max;
    this.running = running;
  }

  /** Of one for whom there is room. */
  take(orgId: number): TurnPlace {
    const admission = { orgId };
    this.admitting.add(admission);
    return { leave: () => this.admitting.delete(admission) };
  }

  assertRoom(orgId: number, now = performance.now()): void {
    this.note(orgId, now);
    const free = this.max - this.running.size - this.admitting.size;
    if (free > Math.floor(this.max / 10)) return;
    if (free > 0 && this.heldBy(orgId) < this.max / this.about.size) return;
    throw new ServiceError('unavailable', 'Too many turns are running.', { retryAfterSeconds: 1 });
  }

  private note(orgId: number, now: number): void {
    this.about.delete(orgId);
    this.about.set(orgId, now);
    for (const [id, at] of this.about) {
      if (now - at < aboutMs) break;
      this.about.delete(id);
    }
  }

  private heldBy(orgId: number): number {
    let held = 0;
    for (const turn of this.running.values()) if (turn.orgId === orgId) held += 1;
    for (const admission of this.admitting) if (admission.orgId === orgId) held += 1;
    return held;
  }
}
