import type { MouseEvent } from 'react';

export interface ChartSeries {
  label: string;
  values: readonly number[];
  /** A colour of the theme, such as `--color-accent`. */
  colour: string;
}

interface BarsProps {
  width: number;
  height: number;
  times: readonly number[];
  series: readonly ChartSeries[];
  format: (value: number) => string;
  step: number;
  /** Index of the bar whose values are shown. */
  selected: number | undefined;
  onSelect(index: number | undefined): void;
}

/** Space around the bars for the labels. On the right, half of the last label of a time extends beyond its bar. */
const margin = { top: 10, right: 14, bottom: 30, left: 48 };
/** Least distance between two labels, in pixels. */
const minDistance = { value: 30, time: 52 };

/** The drawing of a chart: stacked bars, lines with the values, and the times below. */
export function Bars({ width, height, times, series, format, step, selected, onSelect }: BarsProps) {
  const inner = { width: Math.max(1, width - margin.left - margin.right), height: height - margin.top - margin.bottom };
  const slot = inner.width / times.length;
  const sums = times.map((_, index) => series.reduce((sum, { values }) => sum + (values[index] ?? 0), 0));
  const highest = Math.max(1, 1.1 * Math.max(...sums));
  const y = (value: number) => margin.top + inner.height * (1 - value / highest);
  const x = (index: number) => margin.left + slot * index;
  const onMouseMove = ({ clientX, currentTarget }: MouseEvent) => {
    const index = Math.floor((clientX - currentTarget.getBoundingClientRect().left - margin.left) / slot);
    onSelect(times[index] === undefined ? undefined : index);
  };
  const labelEvery = [1, 2, 5, 10, 15, 30].find((bars) => bars * slot >= minDistance.time) ?? 60;
  return (
    <svg
      aria-hidden
      width={width}
      height={height}
      className="painted block fill-dim text-[11px]"
      shapeRendering="crispEdges"
      onMouseMove={onMouseMove}
    >
      {selected !== undefined && <rect x={x(selected)} y={margin.top} width={slot} height={inner.height} className="fill-hover" />}
      {lineValues(highest, (minDistance.value / inner.height) * highest).map((value) => (
        <g key={value}>
          <path d={`M${margin.left} ${y(value)}h${inner.width}`} className="stroke-line" />
          <text x={margin.left - 8} y={y(value)} dominantBaseline="central" textAnchor="end">
            {format(value)}
          </text>
        </g>
      ))}
      {series.map(({ label, values, colour }, level) => {
        const below = (index: number) => series.slice(0, level).reduce((sum, other) => sum + (other.values[index] ?? 0), 0);
        const bar = Math.min(slot * 0.72, 40);
        const path = values.map((value, index) => {
          const bottom = y(below(index));
          return value === 0 ? '' : `M${x(index) + (slot - bar) / 2} ${bottom}h${bar}V${y(below(index) + value)}h${-bar}z`;
        });
        return <path key={label} d={path.join('')} style={{ fill: `var(${colour})` }} />;
      })}
      {times.map((time, index) =>
        Math.round(time / step) % labelEvery === 0 ? (
          <text key={time} x={x(index) + slot / 2} y={height - margin.bottom + 16} textAnchor="middle">
            {tickLabel(time, step)}
          </text>
        ) : null,
      )}
    </svg>
  );
}

/** Values for the lines: multiples of 1, 2 or 5 times a power of ten, at least `minStep` apart. Counts have no fractions. */
function lineValues(highest: number, minStep: number): number[] {
  const power = 10 ** Math.max(0, Math.floor(Math.log10(minStep)));
  const step = [1, 2, 5, 10].map((digit) => digit * power).find((each) => each >= minStep) ?? power;
  return Array.from({ length: Math.floor(highest / step) + 1 }, (_, index) => index * step);
}

function tickLabel(seconds: number, step: number): string {
  const date = new Date(seconds * 1000);
  return step >= 86_400
    ? date.toLocaleDateString('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' })
    : date.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' });
}
