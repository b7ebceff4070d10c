/** A text that survives a reload of the page. Where the browser forbids storage, it is always absent. */
export interface StoredText {
  read(): string | undefined;
  write(text: string): void;
  forget(): void;
}

export type StorageKind = 'local' | 'session' | 'none';

export function storedText(kind: StorageKind, key: string): StoredText {
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
        // The storage is full or forbidden: the chat works without it, but a reload loses the text.
      }
    },
    forget: () => open()?.removeItem(key),
  };
}
