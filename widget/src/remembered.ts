/** Keeps a text across reloads. A browser that forbids storage forgets, and nothing else. */
export interface Remembered {
  read(): string | undefined;
  write(text: string): void;
  forget(): void;
}

export type StorageKind = 'local' | 'session' | 'none';

export function remembered(kind: StorageKind, key: string): Remembered {
  const open = (): Storage | undefined => {
    try {
      if (kind === 'none') return undefined;
      return kind === 'session' ? sessionStorage : localStorage;
    } catch {
      return undefined;
    }
  };
  return {
    read: () => open()?.getItem(key) ?? undefined,
    write(text) {
      try {
        open()?.setItem(key, text);
      } catch {
        // A full or forbidden storage: all goes on, and a reload begins anew.
      }
    },
    forget: () => open()?.removeItem(key),
  };
}
