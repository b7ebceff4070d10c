import { useSyncExternalStore } from 'react';

/** A value that belongs to no component; those that use it are drawn again when it changes. */
export function sharedValue<Value>(initial: Value): { read(): Value; write(next: Value): void; useValue(): Value } {
  let value = initial;
  const listeners = new Set<() => void>();
  const read = () => value;
  const subscribe = (listener: () => void) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  };
  return {
    read,
    write: (next) => {
      value = next;
      for (const listener of listeners) listener();
    },
    useValue: () => useSyncExternalStore(subscribe, read),
  };
}
