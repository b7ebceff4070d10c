/** Milliseconds before attempt `attempt` (the first retry is 0): doubling, with jitter so that clients do not return in step. */
export function backoffMs(attempt: number, mostMs: number): number {
  const ceiling = Math.min(mostMs, 250 * 2 ** Math.min(attempt, 16));
  return ceiling / 2 + (Math.random() * ceiling) / 2;
}

/** Waits; rejects with the signal's reason when it is aborted first. */
export function sleep(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const abort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort);
      resolve();
    }, milliseconds);
    signal?.addEventListener('abort', abort, { once: true });
  });
}
