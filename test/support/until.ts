import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Polls until the condition is true, for what cannot be waited for in another way. Throws when the time is over. Most conditions are a
 * request: the longer it waits the less often it asks, because asking takes CPU time from what it waits for.
 */
export async function until(isSo: () => Promise<boolean>, withinMs = 10_000, what = 'it'): Promise<void> {
  const begun = performance.now();
  while (!(await isSo())) {
    const waited = performance.now() - begun;
    if (waited > withinMs) throw new Error(`${what}: not within ${withinMs} ms`);
    await sleep(Math.min(10 + waited / 20, 50));
  }
}
