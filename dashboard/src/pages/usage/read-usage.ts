import { get } from '../../server/request.ts';
import type { List, UsageRow } from '../../server/types.ts';

export type Dimension = 'agent' | 'model' | 'end_user';
export type Measure = 'total_tokens' | 'turns' | 'cost_micros';

export interface UsageGroup {
  name: string;
  /** Of the measure, day by day. */
  values: number[];
  turns: number;
  input: number;
  output: number;
  cost: number;
}

export interface ReadUsage {
  rows: UsageRow[];
  /** There are more rows than are read: they begin in this day. */
  cutIn: string | undefined;
}

/** The rows of the range, the oldest day first, page by page. */
export async function readUsage(from: string, to: string, dimension: Dimension, signal: AbortSignal): Promise<ReadUsage> {
  const rows: UsageRow[] = [];
  let cursor = '';
  for (let page = 0; page < 50; page += 1) {
    const after = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`;
    const answer = await get<List<UsageRow>>(`/api/usage?group_by=day,${dimension}&from=${from}&to=${to}&limit=200${after}`, signal);
    rows.push(...answer.data);
    if (answer.next_cursor === null) return { rows, cutIn: undefined };
    cursor = answer.next_cursor;
  }
  return { rows, cutIn: rows.at(-1)?.day };
}

/** By day and group, the largest first. Beyond the largest few, groups are one. */
export function breakDown(
  rows: readonly UsageRow[],
  days: readonly string[],
  dimension: Dimension,
  measure: Measure,
  most: number,
): UsageGroup[] {
  const groups = new Map<string, UsageGroup>();
  const indexes = new Map(days.map((day, index) => [day, index]));
  for (const row of rows) {
    const name = nameOf(row, dimension);
    const group = groups.get(name) ?? { name, values: days.map(() => 0), turns: 0, input: 0, output: 0, cost: 0 };
    groups.set(name, group);
    const index = indexes.get(row.day ?? '');
    if (index !== undefined) group.values[index] = (group.values[index] ?? 0) + row[measure];
    group.turns += row.turns;
    group.input += row.input_tokens;
    group.output += row.output_tokens;
    group.cost += row.cost_micros;
  }
  const sorted = [...groups.values()].sort((a, b) => sum(b.values) - sum(a.values));
  const rest = sorted.slice(most);
  if (rest.length < 2) return sorted;
  const other = rest.reduce(
    (total, group) => ({
      name: `${rest.length} others`,
      values: total.values.map((value, index) => value + (group.values[index] ?? 0)),
      turns: total.turns + group.turns,
      input: total.input + group.input,
      output: total.output + group.output,
      cost: total.cost + group.cost,
    }),
    { name: '', values: days.map(() => 0), turns: 0, input: 0, output: 0, cost: 0 },
  );
  return [...sorted.slice(0, most), other];
}

export function daysBetween(from: string, to: string): string[] {
  const days: string[] = [];
  for (let time = Date.parse(from); time <= Date.parse(to) && days.length < 400; time += 86_400_000) days.push(dayOf(new Date(time)));
  return days;
}

export function dayOf(date: Date): string {
  return date.toISOString().slice(0, 10);
}

function nameOf(row: UsageRow, dimension: Dimension): string {
  if (dimension === 'agent') return row.agent ?? 'deleted agent';
  if (dimension === 'model') return row.model ?? '';
  return row.end_user_id ?? 'no end user';
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
