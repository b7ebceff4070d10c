/** Shares work by name: while it runs, further calls with the same name get the same result instead of starting it again. */
export class SharedWork<Result> {
  private readonly work = new Map<string, Promise<Result>>();

  get size(): number {
    return this.work.size;
  }

  /** The names of the work that runs now. */
  names(): string[] {
    return [...this.work.keys()];
  }

  run(name: string, begin: () => Promise<Result>): Promise<Result> {
    const known = this.work.get(name);
    if (known !== undefined) return known;
    const begun = begin().finally(() => this.work.delete(name));
    this.work.set(name, begun);
    return begun;
  }

  /** Resolves when all the work that runs now has ended. */
  ended(): Promise<unknown> {
    return Promise.allSettled(this.work.values());
  }
}
