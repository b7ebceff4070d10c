import { LRUCache } from 'lru-cache';
import type { Db } from '../database/database.ts';
import { atMost } from '../work/at-most.ts';

/** Writes `last_used_at` of API keys, which only people read: at most once a minute per key, and no request waits for it. */
export class KeyUse {
  private readonly db: Db;
  /** Keys that were noted within the last minute. */
  private readonly noted = new LRUCache<number, true>({ ...atMost(20_000), ttl: 60_000 });
  private readonly unwritten = new Set<number>();
  private timer: NodeJS.Timeout | undefined;
  private writing: Promise<void> = Promise.resolve();

  constructor(db: Db) {
    this.db = db;
  }

  note(keyId: number): void {
    if (this.noted.has(keyId)) return;
    this.noted.set(keyId, true);
    this.unwritten.add(keyId);
    this.timer ??= setTimeout(() => {
      this.writing = this.write();
    }, 1_000).unref();
  }

  async close(): Promise<void> {
    clearTimeout(this.timer);
    await this.writing;
    await this.write();
  }

  private async write(): Promise<void> {
    this.timer = undefined;
    const ids = [...this.unwritten];
    this.unwritten.clear();
    if (ids.length === 0) return;
    try {
      await this.db.updateTable('api_keys').set({ last_used_at: new Date() }).where('id', 'in', ids).execute();
    } catch {
      // The database is unreachable: note these keys again at their next use.
      for (const id of ids) this.noted.delete(id);
    }
  }
}
