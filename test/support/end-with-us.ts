import { constants } from 'node:os';

const endings = new Set<() => void>();

/** Runs `end` (synchronous) when this process ends, also when a signal ends it. Call what it returns once it is no longer needed. */
export function endWithUs(end: () => void): () => void {
  if (endings.size === 0) watchForTheEnd();
  endings.add(end);
  return () => endings.delete(end);
}

let watching = false;

function watchForTheEnd(): void {
  if (watching) return;
  watching = true;
  process.on('exit', () => {
    for (const end of endings) end();
  });
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    if (process.listenerCount(signal) === 0) process.on(signal, () => process.exit(128 + constants.signals[signal]));
  }
}
