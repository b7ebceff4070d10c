import { useSyncExternalStore } from 'react';

/** Whether the server answers. `back` is shown for a moment after it did not. */
type Connection = 'ok' | 'lost' | 'back';

let state: Connection = 'ok';
const listeners = new Set<() => void>();
let probing = false;
/** How long an answer may take before the server is asked whether it is there at all, and how long that answer may take. */
const silentMs = 5_000;
/** Aborted while the server is away. */
let away = new AbortController();

/** For a reading: one that began before the server went away would wait for an answer that never comes. */
export function whileReachable(): AbortSignal {
  return away.signal;
}

/** A network can be gone without a word. Whoever waits for this answer finds out, and so does the person. */
export async function watch<Answer>(asked: Promise<Answer>): Promise<Answer> {
  const timer = setTimeout(() => void reportUnserved(), silentMs);
  try {
    return await asked;
  } finally {
    clearTimeout(timer);
  }
}

export function useConnection(): Connection {
  return useSyncExternalStore(subscribe, () => state);
}

/** Called by whatever could not reach the server; asks until it is there again. */
export function reportLost(): void {
  if (probing) return;
  probing = true;
  become('lost');
  away.abort();
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
  away = new AbortController();
  become('back');
  await sleep(4_000);
  if (state === 'back') become('ok');
}

/** Whatever is no failure is an answer: a proxy may know of this address only that it is none of its own. */
async function isReachable(): Promise<boolean> {
  const signal = AbortSignal.timeout(silentMs);
  const answer = await fetch('/readyz', { cache: 'no-store', signal }).catch(() => undefined);
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
