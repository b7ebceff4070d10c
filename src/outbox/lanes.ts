import { LRUCache } from 'lru-cache';
import type { LaneLoad, Slots } from './queue.ts';

export interface LaneLimits {
  /** At once for one destination that answers well. */
  perLane: number;
  /** At once for all destinations that answer well. */
  healthy: number;
  /** At once for all that are slow or fail. */
  troubled: number;
  /** At once, whatever it is. */
  total: number;
  /** An attempt that takes longer than this puts its destination among the troubled. */
  slowMs: number;
}

export const defaultLimits: LaneLimits = { perLane: 8, healthy: 64, troubled: 64, total: 256, slowMs: 1_000 };

/**
 * Which destinations hold how much of this process. An attempt counts against the healthy slots only while it is young:
 * one that hangs moves over to the troubled, so that dead destinations cannot fill the slots of the living.
 */
export class Lanes {
  private readonly running = new Map<string, { lane: string; since: number; troubled: boolean }>();
  private readonly troubled = new LRUCache<string, true>({ max: 1_000 });
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

  begin(id: string, lane: string): void {
    this.running.set(id, { lane, since: performance.now(), troubled: this.troubled.has(lane) });
  }

  end(id: string, well: boolean): void {
    const attempt = this.running.get(id);
    if (attempt === undefined) return;
    this.running.delete(id);
    if (well && !this.isSlow(attempt.since)) this.troubled.delete(attempt.lane);
    else this.troubled.set(attempt.lane, true);
  }

  slots(): Slots {
    let troubled = 0;
    for (const attempt of this.running.values()) if (attempt.troubled || this.isSlow(attempt.since)) troubled += 1;
    const left = Math.max(0, this.limits.total - this.running.size);
    return {
      perLane: this.limits.perLane,
      healthy: Math.min(left, Math.max(0, this.limits.healthy - (this.running.size - troubled))),
      troubled: Math.min(left, Math.max(0, this.limits.troubled - troubled)),
    };
  }

  loads(): LaneLoad[] {
    const loads = new Map<string, LaneLoad>();
    for (const lane of this.troubled.keys()) loads.set(lane, { lane, running: 0, troubled: true });
    for (const { lane, since } of this.running.values()) {
      const load = loads.get(lane) ?? { lane, running: 0, troubled: false };
      load.running += 1;
      load.troubled ||= this.isSlow(since);
      loads.set(lane, load);
    }
    return [...loads.values()];
  }

  private isSlow(since: number): boolean {
    return performance.now() - since > this.limits.slowMs;
  }
}
