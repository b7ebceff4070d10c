import { useCallback } from 'react';
import { useSearchParams } from 'wouter';
import { useWhileShown } from './while-shown.ts';

/** State in the query of the URL, such as the filters of a list: a reload, a link and the back button keep it. */
export function useQueryState(): { read(name: string): string; write(changes: Record<string, string>): void } {
  const [params, setParams] = useSearchParams();
  const read = useCallback((name: string) => params.get(name) ?? '', [params]);
  const write = useCallback(
    (changes: Record<string, string>) => {
      setParams(
        (before) => {
          const next = new URLSearchParams(before);
          for (const [name, value] of Object.entries(changes)) {
            if (value === '') next.delete(name);
            else next.set(name, value);
          }
          return next;
        },
        { replace: true },
      );
    },
    [setParams],
  );
  return { read, write: useWhileShown(write) };
}

export function withQuery(path: string, values: Record<string, string | number | undefined>): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) if (value !== undefined && value !== '') params.set(name, String(value));
  const text = params.toString();
  return text === '' ? path : `${path}?${text}`;
}
