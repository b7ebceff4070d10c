import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { LoadPlan, LoadReport } from './load.ts';
import { cpuMs } from './processes.ts';

export interface Row extends LoadReport {
  name: string;
  /** Of the program and its database, not of the client. */
  cpuPerTurn: number;
  /** To the row that is the floor of its group. */
  ratio?: number;
}

/** Until the code is compiled and plans are kept. */
const warmUpSeconds = 5;

/** Warms up, then loads and counts what the given processes used meanwhile. */
export async function measure(name: string, plan: LoadPlan, pids: number[]): Promise<Row> {
  await load({ ...plan, seconds: Math.max(warmUpSeconds, plan.seconds) });
  const before = cpuMs(pids);
  const report = await load(plan);
  return { name, ...report, cpuPerTurn: Math.round(((cpuMs(pids) - before) / report.turns) * 1000) / 1000 };
}

/** From a process of its own, so that the client's work is nobody's. */
async function load(plan: LoadPlan): Promise<LoadReport> {
  const { stdout } = await promisify(execFile)(process.execPath, [join(import.meta.dirname, 'load.ts'), JSON.stringify(plan)]);
  return JSON.parse(stdout) as LoadReport;
}

export function compare(rows: Row[]): Row[] {
  const floor = rows[0]?.cpuPerTurn ?? 1;
  return rows.map((row) => ({ ...row, ratio: Math.round((row.cpuPerTurn / floor) * 100) / 100 }));
}

export function table(title: string, rows: Row[]): string {
  const lines = rows.map(
    (row) => `| ${row.name} | ${row.perSecond} | ${row.p50} | ${row.p99} | ${row.firstByteP50} | ${row.cpuPerTurn} | ${row.ratio ?? ''} |`,
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
