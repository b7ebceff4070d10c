// Runs test files: decides which of them share a process, which processes run at the same time, and what is run again.
import { readFileSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';
import { isLong as isLongForm } from '../support/chance.ts';
import { type Job, type Outcome, runTogether } from './run-together.ts';

/** Files that failed are run again if they are from at most so many processes. */
const maxFailedProcesses = 6;
/** A process spends a third of its time waiting, so on two processors three at once are faster than two; four are not faster than three. */
const processesAtOnce = Math.max(3, availableParallelism() - 1);
/** Up to this many more are started, one at a time, while `spareProcessors` were idle for a second. */
const maxExtraProcesses = 3;
const spareProcessors = 0.35;
/**
 * So many short files run in the same process, one after the other. Loading the server and the libraries takes a third of the CPU time of
 * such a file, and is done once for all of them. If one leaves something open, all of them fail and are run again alone, which shows which
 * one it is.
 */
const filesPerProcess = 12;

export async function runFiles(jobs: Job[], stop: AbortSignal): Promise<Outcome> {
  console.log(`\n${jobs.length} files`);
  const outcomes = new Map<Job, Outcome>();
  /** Those that failed, of each process with any. */
  const failed: Job[][] = [];
  const runAll = async (together: Job[]) => {
    const ran = await runTogether(together, stop);
    for (const [job, outcome] of ran) outcomes.set(job, outcome);
    const failedTogether = together.filter((job) => ran.get(job)?.failed !== 0);
    if (failedTogether.length > 0) failed.push(failedTogether);
  };
  const waiting = divide(jobs.filter(({ file }) => !runsAlone(file)));
  let underWay = 0;
  const runNext = async () => {
    const together = waiting.shift();
    if (together === undefined) return;
    underWay += 1;
    await runAll(together);
    underWay -= 1;
  };
  const work = async () => {
    while (waiting.length > 0 && !stop.aborted) await runNext();
  };
  const workers = Array.from({ length: processesAtOnce }, work);
  const watch = watchSpareProcessors((spare) => {
    if (spare >= spareProcessors && underWay < processesAtOnce + maxExtraProcesses && !stop.aborted) workers.push(runNext());
  });
  for (const worker of workers) await worker;
  clearInterval(watch);
  for (const job of jobs.filter(({ file }) => runsAlone(file))) if (!stop.aborted) await runAll([job]);
  if (failed.length <= maxFailedProcesses) await tryAgain(failed.flat(), outcomes, stop);
  const sum = (count: keyof Outcome) => [...outcomes.values()].reduce((total, outcome) => total + outcome[count], 0);
  return { passed: sum('passed'), failed: sum('failed'), skipped: sum('skipped') };
}

/** Calls `tell` each second with the number of processors that were idle, as a fraction. */
function watchSpareProcessors(tell: (spare: number) => void): NodeJS.Timeout {
  const idleTime = () => cpus().reduce((sum, { times }) => sum + times.idle, 0);
  let before = { at: performance.now(), idle: idleTime() };
  return setInterval(() => {
    const now = { at: performance.now(), idle: idleTime() };
    tell((now.idle - before.idle) / (now.at - before.at));
    before = now;
  }, 1_000);
}

/** The files of each process: first the long ones, then those with a process of their own, then the short ones of one engine together. */
function divide(jobs: Job[]): Job[][] {
  const long: Job[][] = [];
  const apart: Job[][] = [];
  const shared: Job[][] = [];
  for (const job of jobs) {
    const last = shared.at(-1);
    if (isLong(job.file)) long.push([job]);
    else if (needsOwnProcess(job.file)) apart.push([job]);
    else if (last?.[0]?.environment === job.environment && last.length < filesPerProcess) last.push(job);
    else shared.push([job]);
  }
  return [...long, ...apart, ...shared];
}

/** A file that must not share its process with others says so in a comment at its top, with the reason. */
function needsOwnProcess(file: string): boolean {
  return /^\/\/ Own process: /m.test(readFileSync(file, 'utf8'));
}

/** Long files are started first, so that none is left to run alone at the end. */
function isLong(file: string): boolean {
  const inBrowser = /browser\/(dashboard-(?!organizations|secrets|server)|widget(?!-person))/;
  const others = /recovery|every-route|fuzz|fleet|workers|faults\/|acceptance\/backup|cli\.|drain\.|\/start\.|two-runs|mcp-connections/;
  return inBrowser.test(file) || others.test(file);
}

/**
 * A file that needs the processors for itself, perhaps only in the long form of the fault suite, says so in the same way. It is run after
 * all others, while nothing else runs.
 */
function runsAlone(file: string): boolean {
  const found = /^\/\/ Runs alone( when long)?: /m.exec(readFileSync(file, 'utf8'));
  return found !== null && (found[1] === undefined || isLongForm);
}

/**
 * On a busy machine, tests with real processes and browsers can miss their deadlines. If only a few files failed, they are run
 * once more, alone, and the second result counts; both are in the output. Many failures have another cause.
 */
async function tryAgain(failed: Job[], outcomes: Map<Job, Outcome>, stop: AbortSignal): Promise<void> {
  for (const job of failed) {
    if (stop.aborted) return;
    console.log(`again, alone: ${job.name}`);
    for (const [, outcome] of await runTogether([job], stop)) outcomes.set(job, outcome);
  }
}
