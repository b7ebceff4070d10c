import { get } from '../../server/request.ts';
import type { List, UsageRow } from '../../server/types.ts';

export type Dimension = 'agent' | 'model' | 'end_user';
export type Measure = 'total_tokens' | 'turns' | 'cost_micros';

export interface UsageGroup {
  name: string;
  /** The measure on each day of the range. */
  values: number[];
  turns: number;
  input: number;
  output: number;
  cost: number;
}

export interface ReadUsage {
  rows: UsageRow[];
  /** Every day of the range. */
  days: string[];
  /** Set if the range has more rows than are read: the day of the last row. */
  truncatedAt: string | undefined;
}

const maxPages = 50;

/** Reads the rows of the last days, the oldest first. Which days these are is found at each reading: the page may stay open past midnight. */
export async function readUsage(dayCount: number, dimension: Dimension, signal: AbortSignal): Promise<ReadUsage> {
  const now = Date.now();
  const daysAgo = (count: number) => new Date(now - count * 86_400_000).toISOString().slice(0, 10);
  const [from, to] = [daysAgo(dayCount - 1), daysAgo(0)];
  const days = Array.from({ length: dayCount }, (_, index) => daysAgo(dayCount - 1 - index));
  const rows: UsageRow[] = [];
  let cursor = '';
  for (let page = 0; page < maxPages; page += 1) {
    const after = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`;
    const answer = await get<List<UsageRow>>(`/api/usage?group_by=day,${dimension}&from=${from}&to=${to}&limit=200${after}`, signal);
    rows.push(...answer.data);
    if (answer.next_cursor === null) return { rows, days, truncatedAt: undefined };
    cursor = answer.next_cursor;
  }
  return { rows, days, truncatedAt: rows.at(-1)?.day };
}

/** Adds up the rows by group, the largest first. Several groups after the first `maxGroups` are added up as "N others". */
export function breakDown(
  rows: readonly UsageRow[],
  days: readonly string[],
  dimension: Dimension,
  measure: Measure,
  maxGroups: number,
): UsageGroup[] {
  const groups = new Map<string, UsageGroup>();
  const indexes = new Map(days.map((day, index) => [day, index]));
  for (const row of rows) {
    const name = nameOf(row, dimension);
    const group = groups.get(name) ?? emptyGroup(name, days);
    groups.set(name, group);
    const index = indexes.get(row.day ?? '');
    if (index !== undefined) group.values[index] = (group.values[index] ?? 0) + row[measure];
    group.turns += row.turns;
    group.input += row.input_tokens;
    group.output += row.output_tokens;
    group.cost += row.cost_micros;
  }
  const sorted = [...groups.values()].sort((a, b) => sum(b.values) - sum(a.values));
  const rest = sorted.slice(maxGroups);
  if (rest.length < 2) return sorted;
  const others = emptyGroup(`${rest.length} others`, days);
  for (const group of rest) {
    others.values = others.values.map((value, index) => value + (group.values[index] ?? 0));
    others.turns += group.turns;
    others.input += group.input;
    others.output += group.output;
    others.cost += group.cost;
  }
  return [...sorted.slice(0, maxGroups), others];
}

function emptyGroup(name: string, days: readonly string[]): UsageGroup {
  return { name, values: days.map(() => 0), turns: 0, input: 0, output: 0, cost: 0 };
}

function nameOf(row: UsageRow, dimension: Dimension): string {
  if (dimension === 'agent') return row.agent ?? 'deleted agent';
  if (dimension === 'model') return row.model ?? '';
  return row.end_user_id ?? 'no end user';
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
