import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { Chart } from '../../parts/chart.tsx';
import { Select } from '../../parts/field.tsx';
import { FirstMessage } from '../../parts/first-message.tsx';
import { compact, count, money } from '../../parts/format.ts';
import { Failure, Page, Section, Waiting } from '../../parts/page.tsx';
import { useQueryState } from '../../parts/query-state.ts';
import { Tabs } from '../../parts/tabs.tsx';
import { BudgetSection } from './budget.tsx';
import { breakDown, type Dimension, type Measure, readUsage, type UsageGroup } from './read-usage.ts';

const measures = [
  { value: 'total_tokens', label: 'Tokens' },
  { value: 'turns', label: 'Turns' },
  { value: 'cost_micros', label: 'Cost' },
] as const satisfies readonly { value: Measure; label: string }[];
const dimensions = [
  { value: 'agent', label: 'By agent', heading: 'Agent' },
  { value: 'model', label: 'By model', heading: 'Model' },
  { value: 'end_user', label: 'By end user', heading: 'End user' },
] as const satisfies readonly { value: Dimension; label: string; heading: string }[];
const ranges = [7, 30, 90];
const colours = ['--color-accent', '--color-warn', '--color-dim', '--color-bad', '--color-edge'];

export default function UsagePage() {
  const query = useQueryState();
  const rangeDays = ranges.find((days) => String(days) === query.read('days')) ?? 30;
  const split = dimensions.find(({ value }) => value === query.read('by')) ?? dimensions[0];
  const shown = measures.find(({ value }) => value === query.read('measure')) ?? measures[0];
  const dimension = split.value;
  const measure = shown.value;
  const usage = useQuery({
    queryKey: [`/api/usage ${rangeDays} ${dimension}`],
    queryFn: ({ signal }) => readUsage(rangeDays, dimension, signal),
    refetchInterval: 30_000,
  });
  const { times, series, table } = useMemo(() => {
    const { rows, days } = usage.data ?? { rows: [], days: [] };
    return {
      times: days.map((day) => Date.parse(day) / 1000),
      series: breakDown(rows, days, dimension, measure, 4).map(({ name, values }, index) => ({
        label: name,
        values,
        colour: colours[index % colours.length] ?? '--color-accent',
      })),
      table: breakDown(rows, days, dimension, measure, 100),
    };
  }, [usage.data, dimension, measure]);
  const format = measure === 'cost_micros' ? money : compact;
  return (
    <Page
      title="Usage"
      actions={
        <>
          <Tabs
            label="Measure"
            value={measure}
            onChange={(next) => query.write({ measure: next === 'total_tokens' ? '' : next })}
            tabs={measures}
          />
          <Select
            label="Split"
            value={dimension}
            onChange={(next) => query.write({ by: next === 'agent' ? '' : next })}
            options={dimensions}
          />
          <Select
            label="Range"
            value={String(rangeDays)}
            onChange={(next) => query.write({ days: next === '30' ? '' : next })}
            options={ranges.map((days) => ({ value: String(days), label: `${days} days` }))}
          />
        </>
      }
    >
      {usage.error !== null && <Failure error={usage.error} />}
      {usage.isPending ? (
        <Waiting />
      ) : usage.data === undefined ? null : table.length === 0 ? (
        <FirstMessage title="No usage in this period." text="Turns are counted when they end; days are in UTC." />
      ) : (
        <>
          {usage.data.truncatedAt !== undefined && (
            <p role="status" className="mb-4 text-warn">
              This is too much to show at once: what came after {usage.data.truncatedAt} is not counted here. Choose a shorter range.
            </p>
          )}
          <Section title={`${shown.label} by day`} hint="Days are in UTC.">
            <Chart
              label={`${shown.label} of each day, ${usage.data.days.at(0)} to ${usage.data.days.at(-1)}`}
              times={times}
              series={series}
              step={86_400}
              format={format}
              height={220}
            />
          </Section>
          <Section title={split.label}>
            <UsageTable heading={split.heading} groups={table} />
          </Section>
        </>
      )}
      {!usage.isPending && <BudgetSection />}
    </Page>
  );
}

function UsageTable({ heading, groups }: { heading: string; groups: readonly UsageGroup[] }) {
  return (
    <div className="panel overflow-hidden">
      <table className="grid-table">
        <thead>
          <tr>
            <th>{heading}</th>
            <th className="number">Turns</th>
            <th className="number sm:hidden">Tokens</th>
            <th className="number max-sm:hidden">Input tokens</th>
            <th className="number max-sm:hidden">Output tokens</th>
            <th className="number">Cost</th>
          </tr>
        </thead>
        <tbody>
          {groups.map(({ name, turns, input, output, cost }) => (
            <tr key={name}>
              <td className="w-full max-w-0 truncate font-medium lg:w-auto lg:max-w-60" title={name}>
                {name}
              </td>
              <td className="number">{count(turns)}</td>
              <td className="number text-dim sm:hidden">{compact(input + output)}</td>
              <td className="number text-dim max-sm:hidden">{count(input)}</td>
              <td className="number text-dim max-sm:hidden">{count(output)}</td>
              <td className="number">{money(cost)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
