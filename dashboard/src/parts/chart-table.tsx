import { useState } from 'react';
import type { ChartSeries } from './chart-bars.tsx';

interface ChartTableProps {
  label: string;
  times: readonly number[];
  series: readonly ChartSeries[];
  format: (value: number) => string;
  timeLabel: (time: number) => string;
}

/** The values of a chart as a table, the newest first. Its rows are rendered only while it is open. */
export function ChartTable({ label, times, series, format, timeLabel }: ChartTableProps) {
  const [open, setOpen] = useState(false);
  const rows = open ? times.map((time, index) => ({ time, index })).reverse() : [];
  return (
    <details className="mt-1 text-[0.92em]" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className="w-fit rounded-sm text-dim hover:text-ink">Values as a table</summary>
      <section className="panel mt-2 max-h-72 overflow-auto" tabIndex={0} aria-label={`Values: ${label}`}>
        <table className="grid-table">
          <caption className="sr-only">{label}</caption>
          <thead>
            <tr>
              <th scope="col">Time</th>
              {series.map((each) => (
                <th key={each.label} scope="col" className="number">
                  {each.label}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(({ time, index }) => (
              <tr key={time}>
                <th scope="row" className="!font-normal">
                  {timeLabel(time)}
                </th>
                {series.map((each) => (
                  <td key={each.label} className="number">
                    {format(each.values[index] ?? 0)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </details>
  );
}
