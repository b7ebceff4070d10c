/**
 * Group commit: writes in one statement what waits at the same moment. One batch is written at a time, in the order in which the entries
 * came; those that come meanwhile go together into the next.
 */
export class Batches<Entry> {
  private entries: Entry[] = [];
  private writing = false;
  private readonly maxLength: number;
  private readonly write: (batch: Entry[]) => Promise<void>;
  private readonly size: { of(entry: Entry): number; max: number } | undefined;

  /** `write` tells whoever added the entries what became of each, and never rejects. An entry above the size is written alone. */
  constructor(maxLength: number, write: (batch: Entry[]) => Promise<void>, size?: { of(entry: Entry): number; max: number }) {
    this.maxLength = maxLength;
    this.write = write;
    this.size = size;
  }

  /** The entries that are not in a batch yet. */
  get waiting(): readonly Entry[] {
    return this.entries;
  }

  get isWriting(): boolean {
    return this.writing;
  }

  add(entry: Entry): void {
    this.entries.push(entry);
    if (this.writing) return;
    this.writing = true;
    // What else is added in this round of the event loop goes along.
    setImmediate(() => void this.writeAll());
  }

  /** Takes those entries out that are not in a batch yet. */
  withdraw(isMeant: (entry: Entry) => boolean): Entry[] {
    const withdrawn = this.entries.filter(isMeant);
    if (withdrawn.length > 0) this.entries = this.entries.filter((entry) => !isMeant(entry));
    return withdrawn;
  }

  private async writeAll(): Promise<void> {
    while (this.entries.length > 0) await this.write(this.entries.splice(0, this.nextLength()));
    this.writing = false;
  }

  private nextLength(): number {
    const most = Math.min(this.entries.length, this.maxLength);
    if (this.size === undefined) return most;
    let left = this.size.max;
    for (const [index, entry] of this.entries.entries()) {
      left -= this.size.of(entry);
      if (index === most || (left < 0 && index > 0)) return index;
    }
    return most;
  }
}
