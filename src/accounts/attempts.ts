import { LRUCache } from 'lru-cache';
import { ServiceError } from '../errors.ts';
import { atMost } from '../work/at-most.ts';

const mostAttempts = 10;
const keptMs = 10 * 60_000;

/** Counts attempts under a name, such as an account's address, and refuses further ones for a while when there were too many. */
export class Attempts {
  private readonly counts = new LRUCache<string, { count: number }>({ ...atMost(10_000), ttl: keptMs });

  /** Call it before the attempt is made. Throws when there were too many lately. */
  count(name: string): void {
    const attempts = this.counts.get(name.toLowerCase()) ?? { count: 0 };
    attempts.count += 1;
    if (attempts.count === 1) this.counts.set(name.toLowerCase(), attempts);
    if (attempts.count > mostAttempts) throw new ServiceError('rate-limited', 'Too many attempts', { retryAfterSeconds: keptMs / 1_000 });
  }

  /** Counts the attempt that the work makes. One that fails otherwise than by a refusal was not made after all: the database is away. */
  async during<Result>(name: string, work: () => Promise<Result>): Promise<Result> {
    this.count(name);
    return work().catch((error: unknown) => {
      if (!(error instanceof ServiceError)) this.takeBack(name);
      throw error;
    });
  }

  /** Call it if the attempt was not made after all. */
  takeBack(name: string): void {
    const attempts = this.counts.get(name.toLowerCase());
    if (attempts === undefined) return;
    attempts.count -= 1;
    if (attempts.count === 0) this.forget(name);
  }

  /** Call it when an attempt succeeded. */
  forget(name: string): void {
    this.counts.delete(name.toLowerCase());
  }
}
