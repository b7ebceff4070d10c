import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { LoadPlan, LoadReport } from './load.ts';
import { cpuMs } from './processes.ts';

interface Row extends LoadReport {
  name: string;
  /** Milliseconds of the program and its database, without the load generator. */
  cpuPerTurn: number;
}

/** Something to load, and the processes whose CPU time counts as its own. */
export interface Contender {
  name: string;
  plan: LoadPlan;
  pids: number[];
}

/** Long enough for V8 to optimize the code and for PostgreSQL to cache its plans. */
const warmUpSeconds = 5;
export const rounds = 5;

/** Measures the contenders alternately, so that other activity on the machine affects all alike. Returns the median round of each. */
export async function measure(contenders: readonly Contender[]): Promise<Row[]> {
  for (const { plan } of contenders) await load({ ...plan, seconds: Math.max(warmUpSeconds, plan.seconds) });
  const measured = contenders.map((): Row[] => []);
  for (let round = 0; round < rounds; round += 1)
    for (const [index, contender] of contenders.entries()) measured[index]?.push(await measureOnce(contender));
  return measured.flatMap((rows) => rows.toSorted((left, right) => left.cpuPerTurn - right.cpuPerTurn)[rounds >> 1] ?? []);
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

/** A Markdown table. The ratio is that of the CPU time to the first row's. */
export function table(title: string, rows: Row[]): string {
  const reference = rows[0]?.cpuPerTurn ?? 1;
  const lines = rows.map(({ name, perSecond, p50, p99, firstByteP50, cpuPerTurn }) => {
    const ratio = Math.round((cpuPerTurn / reference) * 100) / 100;
    return `| ${name} | ${perSecond} | ${p50} | ${p99} | ${firstByteP50} | ${cpuPerTurn} | ${ratio} |`;
  });
  return [
    `## ${title}`,
    '',
    '| what | turns/s | p50 ms | p99 ms | first word p50 ms | CPU ms/turn | ratio |',
    '|---|---|---|---|---|---|---|',
    ...lines,
    '',
  ].join('\n');
}
