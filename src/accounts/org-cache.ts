import { LRUCache } from 'lru-cache';
import { ServiceError } from '../errors.ts';
import { UnderWay } from '../under-way.ts';

interface Entry<Value extends object> {
  orgId: number;
  value: Value;
  /** About how many characters it holds, where that may be many. */
  size?: number;
}

/** Names that are looked up at once: more come only from somebody who tries out keys that do not exist. */
const maxReads = 256;
/** A release may hold a megabyte, and an org thousands of them. */
const maxCharacters = 64 * 2 ** 20;
const usualCharacters = 1_000;

/** Values that belong to orgs, by name. Reads once for many that ask at once, and never keeps what a change has overtaken. */
export class OrgCache<Value extends object> {
  // The time to live only bounds the harm of a lost notification.
  private readonly entries = new LRUCache<string, Entry<Value>>({
    max: 5_000,
    maxSize: maxCharacters,
    sizeCalculation: ({ size = usualCharacters }) => Math.max(1, size),
    ttl: 60_000,
  });
  private readonly reads = new UnderWay<Entry<Value> | undefined>();
  private generation = 0;

  /** Absence is not remembered. */
  async get(name: string, read: () => Promise<Entry<Value> | undefined>): Promise<Value | undefined> {
    const entry = this.entries.get(name) ?? (await this.readOnce(name, read));
    return entry?.value;
  }

  /** Drops what is held of one org, or everything. */
  drop(orgId: number | 'all'): void {
    this.generation += 1;
    if (orgId === 'all') this.entries.clear();
    else for (const [name, entry] of this.entries.entries()) if (entry.orgId === orgId) this.entries.delete(name);
  }

  private readOnce(name: string, read: () => Promise<Entry<Value> | undefined>): Promise<Entry<Value> | undefined> {
    const { generation } = this;
    return this.reads.run(`${generation}/${name}`, async () => {
      if (this.reads.size >= maxReads) throw new ServiceError('unavailable', 'The server is overloaded.', { retryAfterSeconds: 1 });
      const entry = await read();
      if (entry !== undefined && generation === this.generation) this.entries.set(name, entry);
      return entry;
    });
  }
}
