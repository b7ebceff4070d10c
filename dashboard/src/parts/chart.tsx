import { type KeyboardEvent, type RefObject, useLayoutEffect, useRef, useState } from 'react';
import { Bars, type ChartSeries } from './chart-bars.tsx';
import { ChartTable } from './chart-table.tsx';

interface ChartProps {
  /** Name of the chart for screen readers. */
  label: string;
  /** Seconds since 1970, one for each value. */
  times: readonly number[];
  series: readonly ChartSeries[];
  format: (value: number) => string;
  /** Seconds between two bars. */
  step: number;
  height?: number;
}

/**
 * Stacked bars over time. The pointer, or the arrow keys while the chart has the focus, select a bar, whose values are shown
 * above. A table below has all values.
 */
export function Chart({ label, times, series, format, step, height = 180 }: ChartProps) {
  const container = useRef<HTMLDivElement>(null);
  const width = useWidth(container);
  const [selected, setSelected] = useState<number>();
  // New data may have fewer bars.
  const index = selected !== undefined && selected < times.length ? selected : undefined;
  const onKeyDown = (event: KeyboardEvent) => {
    const last = times.length - 1;
    const targets: Record<string, number> = { ArrowLeft: (index ?? last + 1) - 1, ArrowRight: (index ?? -1) + 1, Home: 0, End: last };
    const target = targets[event.key];
    if (target === undefined) return;
    event.preventDefault();
    setSelected(Math.max(0, Math.min(last, target)));
  };
  const isEmpty = series.every(({ values }) => values.every((value) => value === 0));
  return (
    <figure className="relative m-0">
      <figcaption className="flex min-h-6 flex-wrap items-center gap-x-4 text-[0.92em] text-dim">
        <span className="sr-only">{label}</span>
        {series.map((each) => (
          <span key={each.label} className="inline-flex max-w-full items-center gap-1.5">
            <span className="painted size-2 shrink-0 rounded-[2px]" style={{ background: `var(${each.colour})` }} aria-hidden />
            <span className="truncate" title={each.label}>
              {each.label}
            </span>
            {index !== undefined && <span className="font-medium text-ink">{format(each.values[index] ?? 0)}</span>}
          </span>
        ))}
        {index !== undefined && <span className="ml-auto">{timeLabel(times[index] ?? 0, step)}</span>}
      </figcaption>
      <div
        className="relative rounded-md"
        role="slider"
        tabIndex={0}
        aria-label={`${label}. Arrow keys read its bars`}
        aria-valuemin={0}
        aria-valuemax={Math.max(0, times.length - 1)}
        aria-valuenow={index ?? times.length - 1}
        aria-valuetext={describeBar(index ?? times.length - 1, times, series, format, step)}
        onKeyDown={onKeyDown}
        onBlur={() => setSelected(undefined)}
      >
        <div ref={container} aria-hidden style={{ height }} onMouseLeave={() => setSelected(undefined)}>
          {width > 0 && <Bars {...{ width, height, times, series, format, step }} selected={index} onSelect={setSelected} />}
        </div>
        {isEmpty && <p className="pointer-events-none absolute inset-0 grid place-items-center pb-6 text-dim">No data in this period.</p>}
      </div>
      <ChartTable label={label} times={times} series={series} format={format} timeLabel={(time) => timeLabel(time, step)} />
    </figure>
  );
}

function useWidth(container: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = container.current;
    if (element === null) return;
    setWidth(element.clientWidth);
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, [container]);
  return width;
}

function describeBar(
  index: number,
  times: readonly number[],
  series: readonly ChartSeries[],
  format: ChartProps['format'],
  step: number,
): string {
  const values = series.map(({ label, values }) => `${label} ${format(values[index] ?? 0)}`);
  return `${timeLabel(times[index] ?? 0, step)}: ${values.join(', ')}`;
}

function timeLabel(seconds: number, step: number): string {
  const date = new Date(seconds * 1000);
  return step >= 86_400
    ? date.toLocaleDateString(undefined, { weekday: 'short', day: 'numeric', month: 'short', timeZone: 'UTC' })
    : date.toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit', timeZoneName: 'short' });
}
