import { LRUCache } from 'lru-cache';
import { overloaded } from '../errors.ts';
import { SharedWork } from '../work/shared-work.ts';

interface Entry<Value extends object> {
  orgId: number;
  value: Value;
  /** Approximate length in characters; `usualCharacters` if not given. */
  size?: number;
}

/** The id of an org that was changed; `all` when it is not known which. */
export type ChangedOrg = number | 'all';

/** Concurrent reads of the database. More than this come only from a client that tries out keys that do not exist. */
const maxReads = 256;
/** Bounds the memory: a release may hold a megabyte, and an org may have thousands. */
const maxCharacters = 64 * 2 ** 20;
const usualCharacters = 1_000;

/**
 * Caches values of orgs by name. Callers that ask for the same name at once share one read, and a value that was read before
 * a change is not kept after it.
 */
export class OrgCache<Value extends object> {
  // The time to live only bounds the harm of a lost notification.
  private readonly entries = new LRUCache<string, Entry<Value>>({
    max: 5_000,
    maxSize: maxCharacters,
    sizeCalculation: ({ size = usualCharacters }) => Math.max(1, size),
    ttl: 60_000,
    ttlResolution: 1_000,
  });
  private readonly reads = new SharedWork<Entry<Value> | undefined>();
  /** Counts the changes so far. */
  private generation = 0;

  /** That there is no such value is not remembered. */
  async get(name: string, read: () => Promise<Entry<Value> | undefined>): Promise<Value | undefined> {
    const entry = this.entries.get(name) ?? (await this.readOnce(name, read));
    return entry?.value;
  }

  /** Drops what is cached of one org, or everything. */
  drop(changed: ChangedOrg): void {
    this.generation += 1;
    if (changed === 'all') this.entries.clear();
    else for (const [name, entry] of this.entries.entries()) if (entry.orgId === changed) this.entries.delete(name);
  }

  private readOnce(name: string, read: () => Promise<Entry<Value> | undefined>): Promise<Entry<Value> | undefined> {
    const { generation } = this;
    return this.reads.run(`${generation}/${name}`, async () => {
      if (this.reads.size >= maxReads) throw overloaded();
      const entry = await read();
      if (entry !== undefined && generation === this.generation) this.entries.set(name, entry);
      return entry;
    });
  }
}
