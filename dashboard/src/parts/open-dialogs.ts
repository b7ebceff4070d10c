import { useSyncExternalStore } from 'react';

/** The open dialogs by the ids of their headings, the topmost last. */
let dialogs: readonly string[] = [];
const listeners = new Set<() => void>();

export function addDialog(id: string): void {
  publish([...dialogs, id]);
}

export function removeDialog(id: string): void {
  publish(dialogs.filter((other) => other !== id));
}

/** Undefined while none is open. */
export function topDialog(): string | undefined {
  return dialogs.at(-1);
}

export function useTopDialog(): string | undefined {
  return useSyncExternalStore(subscribe, topDialog);
}

function publish(next: readonly string[]): void {
  dialogs = next;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
