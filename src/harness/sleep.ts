import { setTimeout as delay } from 'node:timers/promises';

/** Rejects with the signal's reason when it is aborted first. */
export async function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  await delay(milliseconds, undefined, { signal }).catch((error: unknown) => {
    throw signal.aborted ? signal.reason : error;
  });
}
