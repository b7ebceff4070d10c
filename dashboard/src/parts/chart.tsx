import { type KeyboardEvent, type RefObject, useLayoutEffect, useRef, useState } from 'react';
import { Bars } from './chart-bars.tsx';
import { ChartTable } from './chart-table.tsx';

export interface ChartSeries {
  label: string;
  values: readonly number[];
  /** A colour of the theme, such as `--color-accent`. */
  colour: string;
}

interface ChartProps {
  /** Said to people who do not see it. */
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
 * Bars over time, stacked. What is under the pointer is written above them; with the chart in focus the arrow keys go from
 * bar to bar, and a table below it has every value.
 */
export function Chart({ label, times, series, format, step, height = 180 }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const width = useWidth(place);
  const [hovered, setHovered] = useState<number>();
  const index = hovered !== undefined && hovered < times.length ? hovered : undefined;
  const onKeyDown = (event: KeyboardEvent) => {
    const last = times.length - 1;
    const targets: Record<string, number> = { ArrowLeft: (index ?? last + 1) - 1, ArrowRight: (index ?? -1) + 1, Home: 0, End: last };
    const target = targets[event.key];
    if (target === undefined) return;
    event.preventDefault();
    setHovered(Math.max(0, Math.min(last, target)));
  };
  const isEmpty = series.every(({ values }) => values.every((value) => value === 0));
  return (
    <figure className="relative m-0">
      <figcaption className="flex min-h-6 flex-wrap items-center gap-x-4 text-[0.92em] text-dim">
        <span className="sr-only">{label}</span>
        {series.map((each) => (
          <span key={each.label} className="inline-flex items-center gap-1.5">
            <span className="painted size-2 rounded-[2px]" style={{ background: `var(${each.colour})` }} aria-hidden />
            {each.label}
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
        aria-valuetext={sentence(index ?? times.length - 1, times, series, format, step)}
        onKeyDown={onKeyDown}
        onBlur={() => setHovered(undefined)}
      >
        <div ref={place} aria-hidden style={{ height }} onMouseLeave={() => setHovered(undefined)}>
          {width > 0 && <Bars {...{ width, height, times, series, format, step }} marked={index} onPoint={setHovered} />}
        </div>
        {isEmpty && <p className="pointer-events-none absolute inset-0 grid place-items-center pb-6 text-dim">No data in this period.</p>}
      </div>
      <ChartTable label={label} times={times} series={series} format={format} timeLabel={(time) => timeLabel(time, step)} />
    </figure>
  );
}

function useWidth(place: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = place.current;
    if (element === null) return;
    setWidth(element.clientWidth);
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, [place]);
  return width;
}

function sentence(
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
