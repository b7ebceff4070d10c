/** A connection that was open this long worked: the next one is opened without a longer wait, also if it brought no event. */
export const lastingMs = 10_000;

/** Milliseconds before retry number `retry` (from 0): doubles each time, with jitter so that clients do not all come back at once. */
export function backoffMs(retry: number, maxMs: number): number {
  const ceiling = Math.min(maxMs, 250 * 2 ** Math.min(retry, 16));
  return ceiling / 2 + (Math.random() * ceiling) / 2;
}

/** Rejects with the signal's reason when the signal is aborted first. */
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

/** Waits for an answer; rejects with the signal's reason when the signal is aborted first. */
export function unlessAborted<Answer>(answer: Promise<Answer>, signal: AbortSignal | undefined): Promise<Answer> {
  if (signal === undefined) return answer;
  let abort = (): void => {};
  const aborted = new Promise<never>((_resolve, reject) => {
    abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort, { once: true });
  });
  return Promise.race([answer, aborted]).finally(() => signal.removeEventListener('abort', abort));
}
