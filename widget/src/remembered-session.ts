/** Keeps the id of the conversation across reloads. A browser that forbids storage forgets, and nothing else. */
export interface RememberedSession {
  read(): string | undefined;
  write(sessionId: string): void;
  forget(): void;
}

export type StorageKind = 'local' | 'session' | 'none';

export function rememberedSession(kind: StorageKind, key: string): RememberedSession {
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
    write(sessionId) {
      try {
        open()?.setItem(key, sessionId);
      } catch {
        // A full or forbidden storage: the conversation goes on, and a reload begins a new one.
      }
    },
    forget: () => open()?.removeItem(key),
  };
}
