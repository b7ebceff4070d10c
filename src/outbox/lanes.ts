import { LRUCache } from 'lru-cache';
import type { LaneLoad, OrgLoad, Slots } from './queue.ts';

export interface LaneLimits {
  /** At once for one destination that answers well. */
  perLane: number;
  /** At once for all destinations that answer well. */
  healthy: number;
  /** At once for all that fail or hang. */
  troubled: number;
  /** Attempts that take longer than this hang. */
  slowMs: number;
}

export const defaultLimits: LaneLimits = { perLane: 32, healthy: 256, troubled: 128, slowMs: 2_000 };

/**
 * Which destinations hold how much of this process. An attempt takes a slot of the healthy only while it is young: one
 * that hangs moves over to the troubled, so that dead destinations cannot fill the slots of the living.
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

  end(id: string, well: boolean): void {
    const attempt = this.running.get(id);
    if (attempt === undefined) return;
    this.running.delete(id);
    if (well) this.failing.delete(attempt.lane);
    else this.failing.set(attempt.lane, true);
  }

  slots(): Slots {
    let troubled = 0;
    for (const attempt of this.running.values()) if (this.isTroubled(attempt)) troubled += 1;
    return {
      // When very much hangs, whoever comes next may hang too.
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
