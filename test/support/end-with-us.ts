import { constants } from 'node:os';

const endings = new Set<() => void>();
let isWatching = false;

/** Runs `end`, which must be synchronous, when this process ends, also by a signal. Call the returned function to cancel that. */
export function endWithUs(end: () => void): () => void {
  if (!isWatching) watchForExit();
  endings.add(end);
  return () => endings.delete(end);
}

function watchForExit(): void {
  isWatching = true;
  process.on('exit', () => {
    for (const end of endings) end();
  });
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    if (process.listenerCount(signal) === 0) process.on(signal, () => process.exit(128 + constants.signals[signal]));
  }
}
