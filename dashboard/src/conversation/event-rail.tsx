import { useVirtualizer } from '@tanstack/react-virtual';
import { useLayoutEffect, useRef, useState } from 'react';
import { CopyButton } from '../parts/copy.tsx';
import { dayBefore, timeOfClock } from '../parts/format.ts';
import { Json } from '../parts/json.tsx';
import { absoluteTime } from '../parts/time.tsx';
import type { LogEvent } from './log-event.ts';

interface EventRailProps {
  events: readonly LogEvent[];
  /** Scrolls to new entries while the end is in view, until an entry is opened. */
  follow?: boolean;
  /** Seq of an entry that is open, and in view, from the start. */
  opened?: number;
  onOpen?(seq: number): void;
}

const rowHeight = 30;

/** The stored log: seq, type and time of each entry, and its JSON when it is opened. Where it is narrow, the type goes before the day. */
export function EventRail({ events, follow = true, opened, onOpen }: EventRailProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set(opened === undefined ? [] : [opened]));
  const rows = useVirtualizer({
    count: events.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    overscan: 12,
    initialOffset: opened === undefined ? 0 : Math.max(0, (opened - 4) * rowHeight),
  });
  const count = events.length;
  const atEnd = useRef(true);
  useLayoutEffect(() => {
    if (follow && atEnd.current && count > 0 && scroller.current !== null) scroller.current.scrollTop = scroller.current.scrollHeight;
  }, [follow, count]);
  const toggle = (seq: number) => {
    const next = new Set(open);
    if (!next.delete(seq)) {
      next.add(seq);
      atEnd.current = false;
      onOpen?.(seq);
    }
    setOpen(next);
  };
  return (
    <section
      ref={scroller}
      className="@container h-full min-h-0 overflow-y-auto font-mono text-[0.88rem]"
      tabIndex={0}
      aria-label="Events"
      onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
        atEnd.current = scrollHeight - scrollTop - clientHeight < 60;
      }}
    >
      <div className="relative" style={{ height: rows.getTotalSize() }}>
        {rows.getVirtualItems().map((row) => {
          const event = events[row.index];
          if (event === undefined) return null;
          const isOpen = open.has(event.seq);
          return (
            <div
              key={event.seq}
              data-index={row.index}
              ref={rows.measureElement}
              className="absolute top-0 left-0 w-full border-b border-line"
              style={{ transform: `translateY(${row.start}px)` }}
            >
              <button
                type="button"
                aria-expanded={isOpen}
                onClick={() => toggle(event.seq)}
                className="grid w-full grid-cols-[3rem_1fr_auto] items-center gap-2 px-3 py-[5px] text-left hover:bg-hover"
              >
                <span className="text-faint">{event.seq}</span>
                <span className={`truncate ${colourOf(event.type)}`} title={event.type}>
                  {event.type}
                </span>
                <time className="text-faint" dateTime={event.created_at} title={absoluteTime(event.created_at)}>
                  <span className="@max-lg:hidden">{dayBefore(event.created_at)}</span>
                  {timeOfClock(event.created_at)}
                </time>
              </button>
              {isOpen && (
                <div className="relative bg-sunken px-3 py-2">
                  <Json value={event} className="!text-[1em] pr-8" />
                  <div className="absolute top-1 right-1">
                    <CopyButton value={JSON.stringify(event, null, 2)} label="Copy JSON" />
                  </div>
                </div>
              )}
            </div>
          );
        })}
      </div>
    </section>
  );
}

function colourOf(type: string): string {
  if (type === 'session.error') return 'text-bad';
  if (type.startsWith('user.')) return 'text-accent';
  if (type.startsWith('session.')) return 'text-dim';
  return 'text-ink';
}
