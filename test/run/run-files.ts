// Runs test files, each in a process of its own. Prints one line for each file, and all details of a failure.
import { availableParallelism, cpus } from 'node:os';
import { run } from 'node:test';
import { inspect } from 'node:util';
import { engineFlags } from '../support/engine.ts';

export interface Outcome {
  passed: number;
  failed: number;
  skipped: number;
}

const testTimeout = 90_000;
const maxSecondTries = 6;
/** A file spends a third of its time waiting, so on two processors three at once are faster than two; four are not faster than three. */
const filesAtOnce = Math.max(3, availableParallelism() - 1);
/** Up to this many more are started, one at a time, while `spareProcessors` were idle for a second. */
const maxExtraFiles = 3;
const spareProcessors = 0.35;
/** If tests were run and none is under way for this long, the process is only kept alive by something that a test left open. */
const silenceTimeout = 15_000;

/** A file to run, and what it runs with. */
export interface Job {
  file: string;
  name: string;
  environment: Record<string, string | undefined>;
}

export async function runFiles(jobs: Job[], stop: AbortSignal): Promise<Outcome> {
  console.log(`\n${jobs.length} files`);
  const outcomes = new Map<Job, Outcome>();
  const waiting = jobs.filter(({ file }) => !isTimed(file)).sort((left, right) => Number(isLong(right.file)) - Number(isLong(left.file)));
  let underWay = 0;
  const runNext = async () => {
    const job = waiting.shift();
    if (job === undefined) return;
    underWay += 1;
    outcomes.set(job, await runFile(job, stop));
    underWay -= 1;
  };
  const work = async () => {
    while (waiting.length > 0 && !stop.aborted) await runNext();
  };
  const workers = Array.from({ length: filesAtOnce }, work);
  const watch = watchSpareProcessors((spare) => {
    if (spare >= spareProcessors && underWay < filesAtOnce + maxExtraFiles && !stop.aborted) workers.push(runNext());
  });
  for (const worker of workers) await worker;
  clearInterval(watch);
  waiting.push(...jobs.filter(({ file }) => isTimed(file)));
  await work();
  await tryAgain(outcomes, stop);
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

/** Long files are started first, so that none is left to run alone at the end. */
function isLong(file: string): boolean {
  return /recovery|browser\/|every-route|fuzz|fleet|workers|faults|backup\.|cli\.|drain\.|\/start\./.test(file);
}

/** Files that measure response times run alone, after all others. */
function isTimed(file: string): boolean {
  return /dashboard-speed/.test(file);
}

/**
 * On a busy machine, tests with real processes and browsers can miss their deadlines. If only a few files failed, they are run
 * once more, alone, and the second result counts; both are in the output. Many failures have another cause.
 */
async function tryAgain(outcomes: Map<Job, Outcome>, stop: AbortSignal): Promise<void> {
  const failed = [...outcomes].filter(([, outcome]) => outcome.failed > 0).map(([job]) => job);
  if (failed.length > maxSecondTries) return;
  for (const job of failed) {
    if (stop.aborted) return;
    console.log(`again, alone: ${job.name}`);
    outcomes.set(job, await runFile(job, stop));
  }
}

async function runFile({ file, name, environment }: Job, stop: AbortSignal): Promise<Outcome> {
  const started = performance.now();
  const output: string[] = [];
  const failures: string[] = [];
  const seeds = new Set<string>();
  const outcome: Outcome = { passed: 0, failed: 0, skipped: 0 };
  const leaked = new AbortController();
  let ranTests = false;
  const underWay = new Set<string>();
  const silence = setTimeout(() => (ranTests && underWay.size === 0 ? leaked.abort() : silence.refresh()), silenceTimeout);

  const events = run({
    files: [file],
    timeout: testTimeout,
    signal: AbortSignal.any([stop, leaked.signal]),
    env: { ...process.env, ...environment },
    // The same flags for all files, from their start: V8 rejects compiled code that was cached under other flags.
    execArgv: engineFlags,
  });
  for await (const { type, data } of events) {
    silence.refresh();
    if (type === 'test:dequeue' && data.name !== file) underWay.add(`${data.nesting} ${data.name}`);
    if (type === 'test:complete') underWay.delete(`${data.nesting} ${data.name}`);
    if (type === 'test:stdout' || type === 'test:stderr') output.push(data.message);
    if (type === 'test:diagnostic' && data.message.startsWith('Error:')) output.push(`${data.message}\n`);
    if (type === 'test:diagnostic' && data.message.startsWith('seed ')) seeds.add(data.message);
    if (type === 'test:pass' && data.name !== file) ranTests = true;
    if (type === 'test:fail') {
      ranTests = true;
      const { error } = data.details;
      // A group fails when a test in it fails; only the test is reported.
      if ('failureType' in error && error.failureType === 'subtestsFailed') continue;
      if (leaked.signal.aborted) failures.push('  ✗ the process did not end after its tests: something was left open');
      else if (data.name === file) failures.push('  ✗ the file failed outside of its tests');
      else failures.push(`  ✗ ${data.name} (line ${data.line})\n${indent(inspect(error.cause ?? error))}`);
    }
    if (type === 'test:summary' && data.file === undefined) {
      const { passed, skipped, todo, tests } = data.counts;
      Object.assign(outcome, { passed, skipped: skipped + todo, failed: tests - passed - skipped - todo });
    }
  }
  clearTimeout(silence);
  if (!ranTests && !stop.aborted) {
    failures.push('  ✗ the file has no tests');
    Object.assign(outcome, { passed: 0, failed: 1 });
  }
  report(name, outcome, performance.now() - started, [...seeds].join(', '), failures, output);
  return outcome;
}

function report(name: string, outcome: Outcome, duration: number, seeds: string, failures: string[], output: string[]): void {
  const seconds = `${(duration / 1000).toFixed(1)} s${seeds === '' ? '' : `  (${seeds})`}`;
  if (outcome.failed === 0) {
    console.log(`✓ ${name}  ${outcome.passed}${outcome.skipped > 0 ? ` (${outcome.skipped} skipped)` : ''}  ${seconds}`);
    return;
  }
  console.log(`✗ ${name}  ${outcome.failed} failed  ${seconds}`);
  for (const failure of failures) console.log(failure);
  if (output.length > 0) console.log(`  what it printed:\n${indent(output.join('').trimEnd())}`);
}

const indent = (text: string) => text.replace(/^/gm, '    ');
