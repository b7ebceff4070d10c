/**
 * Group commit: writes in one statement what waits at the same moment. One batch is written at a time, in the order in which the entries
 * came; those that come meanwhile go together into the next.
 */
export class Batches<Entry> {
  private entries: Entry[] = [];
  private writing = false;
  private readonly maxLength: number;
  private readonly write: (batch: Entry[]) => Promise<void>;

  /** `write` tells whoever added the entries what became of each, and never rejects. */
  constructor(maxLength: number, write: (batch: Entry[]) => Promise<void>) {
    this.maxLength = maxLength;
    this.write = write;
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
    while (this.entries.length > 0) await this.write(this.entries.splice(0, this.maxLength));
    this.writing = false;
  }
}
