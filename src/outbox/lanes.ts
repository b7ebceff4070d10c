import { LRUCache } from 'lru-cache';
import type { LaneLoad, OrgLoad, Slots } from './queue.ts';

/** How many attempts a process makes at once. */
export interface LaneLimits {
  /** To one destination that answers well. */
  perLane: number;
  /** To all destinations that answer well. */
  healthy: number;
  /** To all destinations that fail or hang. */
  troubled: number;
  /** An attempt that takes longer than this hangs. */
  slowMs: number;
}

export const defaultLimits: LaneLimits = { perLane: 32, healthy: 256, troubled: 128, slowMs: 2_000 };

/**
 * The attempts that this process is making, by destination. There are separate slots for healthy and for troubled
 * destinations. An attempt that hangs gives its healthy slot back and counts as troubled, so that dead destinations cannot
 * take all slots from those that answer.
 */
export class Lanes {
  private readonly running = new Map<string, { lane: string; orgId: number; since: number; failing: boolean }>();
  /** Destinations whose last attempt failed. */
  private readonly failing = new LRUCache<string, true>({ max: 1_000 });
  private readonly limits: LaneLimits;

  constructor(limits: LaneLimits) {
    this.limits = limits;
  }

  get size(): number {
    return this.running.size;
  }

  ids(): string[] {
    return [...this.running.keys()];
  }

  begin(id: string, lane: string, orgId: number): void {
    this.running.set(id, { lane, orgId, since: performance.now(), failing: this.failing.has(lane) });
  }

  end(id: string, succeeded: boolean): void {
    const attempt = this.running.get(id);
    if (attempt === undefined) return;
    this.running.delete(id);
    if (succeeded) this.failing.delete(attempt.lane);
    else this.failing.set(attempt.lane, true);
  }

  slots(): Slots {
    let troubled = 0;
    for (const attempt of this.running.values()) if (this.isTroubled(attempt)) troubled += 1;
    return {
      // When this many hang, the next destinations may hang too: find out with one attempt each.
      perLane: troubled > 2 * this.limits.troubled ? 1 : this.limits.perLane,
      healthy: Math.max(0, this.limits.healthy - (this.running.size - troubled)),
      troubled: Math.max(0, this.limits.troubled - troubled),
    };
  }

  loads(): LaneLoad[] {
    const loads = new Map<string, LaneLoad>();
    for (const lane of this.failing.keys()) loads.set(lane, { lane, running: 0, troubled: true });
    for (const { lane, since } of this.running.values()) {
      const load = loads.get(lane) ?? { lane, running: 0, troubled: false };
      load.running += 1;
      load.troubled ||= this.hangs(since);
      loads.set(lane, load);
    }
    return [...loads.values()];
  }

  orgLoads(): OrgLoad[] {
    const loads = new Map<number, OrgLoad>();
    for (const attempt of this.running.values()) {
      const load = loads.get(attempt.orgId) ?? { org_id: attempt.orgId, healthy: 0, troubled: 0 };
      load[this.isTroubled(attempt) ? 'troubled' : 'healthy'] += 1;
      loads.set(attempt.orgId, load);
    }
    return [...loads.values()];
  }

  private isTroubled({ failing, since }: { failing: boolean; since: number }): boolean {
    return failing || this.hangs(since);
  }

  private hangs(since: number): boolean {
    return performance.now() - since > this.limits.slowMs;
  }
}
