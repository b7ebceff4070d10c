import { setTimeout as sleep } from 'node:timers/promises';

/** For what announces itself nowhere. Fails when it has not come to be in time. */
export async function until(isSo: () => Promise<boolean>, withinMs = 10_000, what = 'it'): Promise<void> {
  const end = performance.now() + withinMs;
  while (!(await isSo())) {
    if (performance.now() > end) throw new Error(`${what}: not within ${withinMs} ms`);
    await sleep(10);
  }
}
