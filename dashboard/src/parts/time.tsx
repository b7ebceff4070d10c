import { type ReactNode, useSyncExternalStore } from 'react';
import { dueTime, recentTime, relativeTime } from './format.ts';

const listeners = new Set<() => void>();
let now = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;

/** The current time, from one clock for all components. It ticks only while one of them is on the page. */
function useNow(): number {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      timer ??= setInterval(() => {
        now = Date.now();
        for (const each of listeners) each();
      }, 10_000);
      return () => {
        listeners.delete(listener);
        if (listeners.size > 0) return;
        clearInterval(timer);
        timer = undefined;
      };
    },
    () => now,
  );
}

const absolute = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long' });

/** How long ago or ahead a time is, with the exact time on hover. */
export function Time({ at, className = '' }: { at: string | null; className?: string }) {
  const now = recentTime(useNow());
  if (at === null) return <span className="text-faint">never</span>;
  return (
    <Moment at={at} className={className}>
      {relativeTime(Date.parse(at), now)}
    </Moment>
  );
}

/** When the next attempt at something is made, with the exact time on hover. */
export function DueTime({ at, className = '' }: { at: string; className?: string }) {
  const now = recentTime(useNow());
  return (
    <Moment at={at} className={className}>
      {dueTime(Date.parse(at), now)}
    </Moment>
  );
}

/** A time in words of its own, with the exact time on hover. */
export function Moment({ at, className = '', children }: { at: string; className?: string; children: ReactNode }) {
  return (
    <time dateTime={at} title={absoluteTime(at)} className={`whitespace-nowrap ${className}`}>
      {children}
    </time>
  );
}

export function absoluteTime(at: string): string {
  return absolute.format(new Date(at));
}
