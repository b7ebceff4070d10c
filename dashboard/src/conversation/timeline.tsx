import { useVirtualizer } from '@tanstack/react-virtual';
import { useMemo, useRef } from 'react';
import { clockTime, duration } from '../parts/format.ts';
import type { LogEvent } from './log-event.ts';
import { type Span, spansOf } from './spans.ts';

const colours: Record<Span['kind'], string> = { turn: 'bg-edge', model: 'bg-accent', tool: 'bg-dim', wait: 'bg-warn' };
const labels: Record<Span['kind'], string> = { turn: 'Whole turn', model: 'Model', tool: 'Tool', wait: 'Waiting for a person' };

/** A chart of how each turn spent its time: on the model, on tools, and waiting for a person. */
export function Timeline({ events, onOpen }: { events: readonly LogEvent[]; onOpen(seq: number): void }) {
  const spans = useMemo(() => spansOf(events), [events]);
  const scroller = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({ count: spans.length, getScrollElement: () => scroller.current, estimateSize: () => 30, overscan: 12 });
  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <p className="flex flex-wrap gap-x-4 border-b border-line px-4 py-1.5 text-[0.92em] text-dim sm:px-6">
        {(['turn', 'model', 'tool', 'wait'] as const).map((kind) => (
          <span key={kind} className="inline-flex items-center gap-1.5">
            <span className={`painted size-2 rounded-[2px] ${colours[kind]}`} aria-hidden /> {labels[kind]}
          </span>
        ))}
      </p>
      <section ref={scroller} className="min-h-0 flex-1 overflow-y-auto" tabIndex={0} aria-label="Timeline">
        <div className="relative" style={{ height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map((row) => {
            const span = spans[row.index];
            if (span === undefined) return null;
            const turnTime = Math.max(1, span.turnEnd - span.turnStart);
            const left = Math.min(99.6, ((span.start - span.turnStart) / turnTime) * 100);
            const width = Math.min(100 - left, Math.max(0.4, ((span.end - span.start) / turnTime) * 100));
            return (
              <button
                key={`${span.seq} ${span.kind}`}
                type="button"
                title={`${span.label}, from ${clockTime(span.at)}: open entry ${span.seq}`}
                onClick={() => onOpen(span.seq)}
                className={`absolute top-0 left-0 grid h-[30px] w-full grid-cols-[minmax(7rem,14rem)_1fr_5rem] items-center gap-3 px-4 text-left hover:bg-hover sm:px-6 ${span.kind === 'turn' ? 'border-t border-line' : ''}`}
                style={{ transform: `translateY(${row.start}px)` }}
              >
                <span className={`truncate ${span.kind === 'turn' ? 'font-medium' : 'pl-3 text-dim'} ${span.failed ? 'text-bad' : ''}`}>
                  {span.label}
                </span>
                <span className="relative block h-2 rounded-full bg-hover">
                  <span
                    className={`painted absolute h-full rounded-full ${span.failed ? 'bg-bad' : colours[span.kind]}`}
                    style={{ left: `${left}%`, width: `${width}%` }}
                  />
                </span>
                <span className="text-right text-[0.92em] text-faint">
                  {span.open ? (span.kind === 'wait' ? 'waiting' : '–') : duration(span.end - span.start)}
                </span>
              </button>
            );
          })}
        </div>
      </section>
    </div>
  );
}
