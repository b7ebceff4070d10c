import { sharedValue } from './shared-value.ts';

/** The open dialogs by the ids of their headings, the topmost last. */
const dialogs = sharedValue<readonly string[]>([]);

export function addDialog(id: string): void {
  dialogs.write([...dialogs.read(), id]);
}

export function removeDialog(id: string): void {
  dialogs.write(dialogs.read().filter((other) => other !== id));
}

/** Undefined while none is open. */
export function topDialog(): string | undefined {
  return dialogs.read().at(-1);
}

export function useTopDialog(): string | undefined {
  return dialogs.useValue().at(-1);
}
