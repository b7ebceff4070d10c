import { isRecord } from './json.ts';

/** Replaces what PostgreSQL cannot store and a model or a tool may produce: NUL characters and halves of surrogate pairs. */
export function storable(text: string): string {
  return text.includes('\0') || !text.isWellFormed() ? text.replaceAll('\0', '\uFFFD').toWellFormed() : text;
}

export function storableJson<Value>(value: Value): Value {
  const text = JSON.stringify(value);
  if (text === undefined || !/\\u(0000|d[89a-f])/i.test(text)) return value;
  return JSON.parse(text, (_key, entry: unknown) => {
    if (typeof entry === 'string') return storable(entry);
    if (!isRecord(entry)) return entry;
    return Object.fromEntries(Object.entries(entry).map(([key, child]) => [storable(key), child]));
  });
}
