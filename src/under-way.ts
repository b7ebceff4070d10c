/** Work under way, by name: whoever asks for it before it has ended gets the same result, and it is not begun again. */
export class UnderWay<Result> {
  private readonly work = new Map<string, Promise<Result>>();

  get size(): number {
    return this.work.size;
  }

  run(name: string, begin: () => Promise<Result>): Promise<Result> {
    const known = this.work.get(name);
    if (known !== undefined) return known;
    const begun = begin().finally(() => this.work.delete(name));
    this.work.set(name, begun);
    return begun;
  }

  /** What has begun so far, when all of it has ended. */
  ended(): Promise<unknown> {
    return Promise.allSettled(this.work.values());
  }
}
