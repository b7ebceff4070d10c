import { LRUCache } from 'lru-cache';
import { ServiceError } from '../errors.ts';

/** A bucket per organization that fills at `perSecond` and holds `burst`; either at 0 turns the limit off. */
export class RateLimit {
  private readonly perSecond: number;
  private readonly burst: number;
  private readonly buckets = new LRUCache<number, { tokens: number; at: number }>({ max: 100_000 });

  constructor(perSecond: number, burst: number) {
    this.perSecond = perSecond;
    this.burst = burst;
  }

  /** Throws 429 with the time after which there is room again. */
  take(orgId: number, now: number = performance.now()): void {
    if (this.perSecond === 0 || this.burst === 0) return;
    const bucket = this.buckets.get(orgId) ?? { tokens: this.burst, at: now };
    bucket.tokens = Math.min(this.burst, bucket.tokens + ((now - bucket.at) / 1000) * this.perSecond);
    bucket.at = now;
    this.buckets.set(orgId, bucket);
    if (bucket.tokens < 1)
      throw new ServiceError('rate-limited', 'Too many requests.', { retryAfterSeconds: (1 - bucket.tokens) / this.perSecond });
    bucket.tokens -= 1;
  }
}
