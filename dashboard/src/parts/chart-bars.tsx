import type { MouseEvent } from 'react';
import type { ChartSeries } from './chart.tsx';

interface BarsProps {
  width: number;
  height: number;
  times: readonly number[];
  series: readonly ChartSeries[];
  format: (value: number) => string;
  step: number;
  /** Which bar is read now. */
  marked: number | undefined;
  onPoint(index: number | undefined): void;
}

/** Room around the bars: for the labels of the values and of the times, and for half a label at the end. */
const room = { top: 10, right: 14, bottom: 30, left: 48 };
/** As far apart as labels of values, and of times, stand at least. */
const apart = { value: 30, time: 52 };

/** The drawing of a chart: the bars, what they are measured against, and when they were. */
export function Bars({ width, height, times, series, format, step, marked, onPoint }: BarsProps) {
  const inner = { width: Math.max(1, width - room.left - room.right), height: height - room.top - room.bottom };
  const slot = inner.width / times.length;
  const sums = times.map((_, index) => series.reduce((sum, { values }) => sum + (values[index] ?? 0), 0));
  const highest = Math.max(1, 1.1 * Math.max(...sums));
  const y = (value: number) => room.top + inner.height * (1 - value / highest);
  const x = (index: number) => room.left + slot * index;
  const point = ({ clientX, currentTarget }: MouseEvent) => {
    const index = Math.floor((clientX - currentTarget.getBoundingClientRect().left - room.left) / slot);
    onPoint(times[index] === undefined ? undefined : index);
  };
  const every = [1, 2, 5, 10, 15, 30].find((each) => each * slot >= apart.time) ?? 60;
  return (
    <svg
      aria-hidden
      width={width}
      height={height}
      className="painted block fill-dim text-[11px]"
      shapeRendering="crispEdges"
      onMouseMove={point}
    >
      {marked !== undefined && <rect x={x(marked)} y={room.top} width={slot} height={inner.height} className="fill-hover" />}
      {wholeSteps(highest, (apart.value / inner.height) * highest).map((value) => (
        <g key={value}>
          <path d={`M${room.left} ${y(value)}h${inner.width}`} className="stroke-line" />
          <text x={room.left - 8} y={y(value)} dominantBaseline="central" textAnchor="end">
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
        Math.round(time / step) % every === 0 ? (
          <text key={time} x={x(index) + slot / 2} y={height - room.bottom + 16} textAnchor="middle">
            {tickLabel(time, step)}
          </text>
        ) : null,
      )}
    </svg>
  );
}

/** From 0 in steps of 1, 2 or 5 with any number of zeros, no closer than this: what is counted comes in whole numbers. */
function wholeSteps(highest: number, least: number): number[] {
  const power = 10 ** Math.max(0, Math.floor(Math.log10(least)));
  const step = [1, 2, 5, 10].map((digit) => digit * power).find((each) => each >= least) ?? power;
  return Array.from({ length: Math.floor(highest / step) + 1 }, (_, index) => index * step);
}

function tickLabel(seconds: number, step: number): string {
  const date = new Date(seconds * 1000);
  return step >= 86_400
    ? date.toLocaleDateString('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' })
    : date.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' });
}
