import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { percentile } from '../test/support/flood.ts';
import type { LoadPlan, LoadReport } from './load.ts';
import { cpuMs } from './processes.ts';

export interface Row extends LoadReport {
  name: string;
  /** Milliseconds of the program and its database, without the load generator. */
  cpuPerTurn: number;
}

/** The median round of a contender, by its CPU time. */
export interface Measured extends Row {
  /** Its CPU time by that of the first contender in the same round: the median of all rounds. */
  ratio: number;
  rounds: Row[];
}

/** Something to load, and the processes whose CPU time counts as its own. */
export interface Contender {
  name: string;
  plan: LoadPlan;
  pids: number[];
}

/** Long enough for V8 to optimize the code and for PostgreSQL to cache its plans. */
const warmUpSeconds = 5;
/** Short and many: a machine that becomes slower or faster every few seconds seldom does so within one. */
export const rounds = 15;

/**
 * Measures the contenders alternately, and compares those of one round: a machine that is slower for a minute is so for all of
 * them alike, whichever rounds are the median ones.
 */
export async function measure(contenders: readonly Contender[]): Promise<Measured[]> {
  for (const { plan } of contenders) await load({ ...plan, seconds: Math.max(warmUpSeconds, plan.seconds) });
  const measured = contenders.map((): Row[] => []);
  for (let round = 0; round < rounds; round += 1)
    for (const [index, contender] of contenders.entries()) measured[index]?.push(await measureOnce(contender));
  const reference = measured[0] ?? [];
  return measured.flatMap((rows) => {
    const median = rows.toSorted((left, right) => left.cpuPerTurn - right.cpuPerTurn)[rounds >> 1];
    const ratios = rows.map(({ cpuPerTurn }, round) => cpuPerTurn / (reference[round]?.cpuPerTurn ?? 1));
    return median === undefined ? [] : { ...median, ratio: percentile(ratios, 0.5), rounds: rows };
  });
}

/** Compares two contenders in each round: the median of all rounds. */
export function compare(
  measured: readonly Measured[],
  [name, other]: [string, string],
  compareRound: (row: Row, otherRow: Row) => number,
): number {
  const roundsOf = (wanted: string) => measured.find((row) => row.name === wanted)?.rounds ?? [];
  const others = roundsOf(other);
  const compared = roundsOf(name).flatMap((row, round) => {
    const otherRow = others[round];
    return otherRow === undefined ? [] : [compareRound(row, otherRow)];
  });
  return percentile(compared, 0.5);
}

async function measureOnce({ name, plan, pids }: Contender): Promise<Row> {
  const before = cpuMs(pids);
  const report = await load(plan);
  return { name, ...report, cpuPerTurn: Math.round(((cpuMs(pids) - before) / report.turns) * 1000) / 1000 };
}

/** Runs load.ts in a process of its own, so that its CPU time is not counted for any contender. */
async function load(plan: LoadPlan): Promise<LoadReport> {
  const { stdout } = await promisify(execFile)(process.execPath, [join(import.meta.dirname, 'load.ts'), JSON.stringify(plan)]);
  return JSON.parse(stdout) as LoadReport;
}

/** A Markdown table. */
export function table(title: string, rows: readonly Measured[]): string {
  const lines = rows.map(
    ({ name, perSecond, p50, p99, firstByteP50, cpuPerTurn, ratio }) =>
      `| ${name} | ${perSecond} | ${p50} | ${p99} | ${firstByteP50} | ${cpuPerTurn} | ${ratio} |`,
  );
  return [
    `## ${title}`,
    '',
    '| what | turns/s | p50 ms | p99 ms | first word p50 ms | CPU ms/turn | ratio |',
    '|---|---|---|---|---|---|---|',
    ...lines,
    '',
  ].join('\n');
}
