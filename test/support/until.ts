import { setTimeout as sleep } from 'node:timers/promises';

/** Polls until the condition is true, for what cannot be waited for in another way. Throws when the time is over. */
export async function until(isSo: () => Promise<boolean>, withinMs = 10_000, what = 'it'): Promise<void> {
  const end = performance.now() + withinMs;
  while (!(await isSo())) {
    if (performance.now() > end) throw new Error(`${what}: not within ${withinMs} ms`);
    await sleep(10);
  }
}
