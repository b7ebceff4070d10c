import { useSyncExternalStore } from 'react';

/** Whether the server answers. `back` is shown for a moment after it did not. */
type Connection = 'ok' | 'lost' | 'back';

let state: Connection = 'ok';
const listeners = new Set<() => void>();
let probing = false;

export function useConnection(): Connection {
  return useSyncExternalStore(subscribe, () => state);
}

/** Called by whatever could not reach the server; asks until it is there again. */
export function reportLost(): void {
  if (probing) return;
  probing = true;
  become('lost');
  void probe();
}

/** Called by whatever was told that it cannot be served now: only this one request may be too much, or the server is away. */
export async function reportUnserved(): Promise<void> {
  if (!probing && !(await isReachable())) reportLost();
}

/** Resolves when the server answers. At once, when nothing is known to be wrong. */
export async function untilReachable(): Promise<void> {
  while (state === 'lost') await sleep(200);
}

async function probe(): Promise<void> {
  for (let wait = 400; ; wait = Math.min(wait * 1.5, 3_000)) {
    await sleep(wait);
    if (await isReachable()) break;
  }
  probing = false;
  become('back');
  await sleep(4_000);
  if (state === 'back') become('ok');
}

/** Whatever is no failure is an answer: a proxy may know of this address only that it is none of its own. */
async function isReachable(): Promise<boolean> {
  const answer = await fetch('/readyz', { cache: 'no-store' }).catch(() => undefined);
  return answer !== undefined && answer.status < 500;
}

function become(next: Connection): void {
  state = next;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
