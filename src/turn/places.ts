import { ServiceError } from '../errors.ts';

/** An organization counts as active for this long after it last asked for a turn. */
const activeMs = 60_000;

/** Held by a turn while it is admitted, and left when that is over: one that has begun is counted as running from then on. */
export interface TurnPlace {
  leave(): void;
}

/**
 * Limits how many turns this process has, running or being admitted. The last tenth of the places goes only to organizations that
 * hold less than an equal share: otherwise one organization with hour-long turns could keep all others out for an hour. An
 * organization that is alone may take all places.
 */
export class TurnPlaces {
  private readonly max: number;
  private readonly running: ReadonlyMap<string, { orgId: number }>;
  private readonly admitting = new Set<{ orgId: number }>();
  /** When each active organization last asked for a turn, oldest first. */
  private readonly askedAt = new Map<number, number>();

  constructor(max: number, running: ReadonlyMap<string, { orgId: number }>) {
    this.max = max;
    this.running = running;
  }

  /** Throws when there is no place for the organization. */
  take(orgId: number, now = performance.now()): TurnPlace {
    this.assertRoom(orgId, now);
    const admission = { orgId };
    this.admitting.add(admission);
    return { leave: () => this.admitting.delete(admission) };
  }

  private assertRoom(orgId: number, now: number): void {
    this.note(orgId, now);
    const free = this.max - this.running.size - this.admitting.size;
    if (free > Math.floor(this.max / 10)) return;
    if (free > 0 && this.heldBy(orgId) < this.max / this.askedAt.size) return;
    throw new ServiceError('unavailable', 'Too many turns are running.', { retryAfterSeconds: 1 });
  }

  private note(orgId: number, now: number): void {
    this.askedAt.delete(orgId);
    this.askedAt.set(orgId, now);
    for (const [id, at] of this.askedAt) {
      if (now - at < activeMs) break;
      this.askedAt.delete(id);
    }
  }

  private heldBy(orgId: number): number {
    let held = 0;
    for (const turn of this.running.values()) if (turn.orgId === orgId) held += 1;
    for (const admission of this.admitting) if (admission.orgId === orgId) held += 1;
    return held;
  }
}
