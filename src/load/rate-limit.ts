import { LRUCache } from 'lru-cache';
import { ServiceError } from '../errors.ts';
import { atMost } from '../work/at-most.ts';

/**
 * A token bucket per organization that fills at `perSecond` and holds `burst`; 0 for either turns the limit off. The processes of
 * an installation do not share buckets: each enforces its part of the limit.
 */
export class RateLimit {
  private readonly perSecond: number;
  private readonly burst: number;
  private processes = 1;
  private readonly buckets = new LRUCache<number, { tokens: number; at: number }>(atMost(100_000));

  constructor(perSecond: number, burst: number) {
    this.perSecond = perSecond;
    this.burst = burst;
  }

  /** How many processes share the limit. */
  shareWith(processes: number): void {
    this.processes = Math.max(1, processes);
  }

  /** Throws 429 with the time after which there is room again. */
  take(orgId: number, now: number = performance.now()): void {
    if (this.perSecond === 0 || this.burst === 0) return;
    const burst = Math.max(1, this.burst / this.processes);
    const perSecond = this.perSecond / this.processes;
    const bucket = this.buckets.get(orgId) ?? { tokens: burst, at: now };
    bucket.tokens = Math.min(burst, bucket.tokens + ((now - bucket.at) / 1000) * perSecond);
    bucket.at = now;
    this.buckets.set(orgId, bucket);
    if (bucket.tokens < 1)
      throw new ServiceError('rate-limited', 'Too many requests.', { retryAfterSeconds: (1 - bucket.tokens) / perSecond });
    bucket.tokens -= 1;
  }
}
