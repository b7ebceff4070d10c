import { ServiceError } from '../errors.ts';

/** Organizations whose buckets are kept; that of another is full. */
const maxBuckets = 100_000;

/**
 * A token bucket per organization that fills at `perSecond` and holds `burst`; 0 for either turns the limit off. The processes of
 * an installation do not share buckets: each enforces its part of the limit.
 */
export class RateLimit {
  private readonly perSecond: number;
  private readonly burst: number;
  private processes = 1;
  /** The one used last is at the end. Not an LRUCache: that makes room for all of them at once, which takes 17 ms of each start. */
  private readonly buckets = new Map<number, { tokens: number; at: number }>();

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
    this.keep(orgId, bucket);
    if (bucket.tokens < 1)
      throw new ServiceError('rate-limited', 'Too many requests.', { retryAfterSeconds: (1 - bucket.tokens) / perSecond });
    bucket.tokens -= 1;
  }

  private keep(orgId: number, bucket: { tokens: number; at: number }): void {
    this.buckets.delete(orgId);
    this.buckets.set(orgId, bucket);
    if (this.buckets.size <= maxBuckets) return;
    const [leastRecent] = this.buckets.keys();
    if (leastRecent !== undefined) this.buckets.delete(leastRecent);
  }
}
