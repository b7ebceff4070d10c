// Runs test files in one process. Prints one line for each file, and all details of a failure.
import { run } from 'node:test';
import { inspect } from 'node:util';
import { engineFlags } from '../support/engine.ts';

/** A file to run, and what it runs with. */
export interface Job {
  file: string;
  name: string;
  environment: Record<string, string | undefined>;
}

export interface Outcome {
  passed: number;
  failed: number;
  skipped: number;
}

const testTimeout = 90_000;
/** If tests of a file were run and none is under way for this long, the process is only kept alive by something that a test left open. */
const silenceTimeout = 15_000;
const entry = 'test/run/test-process.ts';
/** V8 begins with a small heap and collects garbage often until it has grown: that took a twelfth of the CPU time of a test process. */
const heapFlags = ['--initial-old-space-size=256', '--min-semi-space-size=16'];

interface Result {
  passed: number;
  skipped: number;
  failures: string[];
  seeds: Set<string>;
  output: string[];
  milliseconds: number;
}

/** All jobs must have the same environment. */
export async function runTogether(jobs: Job[], stop: AbortSignal): Promise<Map<Job, Outcome>> {
  const results = new Map(jobs.map((job) => [job.file, newResult()]));
  const left = jobs.map(({ file }) => file);
  const leaked = new AbortController();
  let ranTests = false;
  const underWay = new Set<string>();
  const silence = setTimeout(() => (ranTests && underWay.size === 0 ? leaked.abort() : silence.refresh()), silenceTimeout);

  const events = run({
    files: [entry],
    argv: jobs.map(({ file }) => file),
    timeout: testTimeout,
    signal: AbortSignal.any([stop, leaked.signal]),
    env: { ...process.env, ...jobs[0]?.environment },
    // The same flags for all files, from their start: V8 rejects compiled code that was cached under other flags.
    execArgv: [...engineFlags, ...heapFlags],
  });
  for await (const { type, data } of events) {
    silence.refresh();
    // The files run in this order. What is printed after the last one belongs to it.
    const result = results.get(left[0] ?? jobs.at(-1)?.file ?? '') ?? newResult();
    if (type === 'test:dequeue' && data.nesting > 0) underWay.add(`${data.nesting} ${data.name}`);
    if (type === 'test:complete') underWay.delete(`${data.nesting} ${data.name}`);
    if (type === 'test:stdout' || type === 'test:stderr') result.output.push(data.message);
    if (type === 'test:diagnostic' && data.message.startsWith('Error:')) result.output.push(`${data.message}\n`);
    if (type === 'test:diagnostic' && data.message.startsWith('seed ')) result.seeds.add(data.message);
    if (type !== 'test:pass' && type !== 'test:fail') continue;

    ranTests = true;
    // A group fails when a test in it fails; only the test is reported.
    const error =
      type === 'test:fail' && !hasFailedTests(data.details.error) ? (data.details.error.cause ?? data.details.error) : undefined;
    if (data.name === left[0] && data.nesting === 0) {
      if (error !== undefined) result.failures.push(`  ✗ the file failed outside of its tests\n${indent(inspect(error))}`);
      result.milliseconds = data.details.duration_ms;
      left.shift();
      // Loading the next one may take its time.
      ranTests = left.length === 0;
    } else if (data.nesting === 0) {
      // The process itself. Which file is to blame is seen when each is run alone.
      const reason = leaked.signal.aborted ? 'the process did not end after its tests: something was left open' : 'the process failed';
      if (error !== undefined) for (const each of results.values()) each.failures.push(`  ✗ ${reason}`);
    } else if (data.skip !== undefined || data.todo !== undefined) {
      result.skipped += 1;
    } else if (error !== undefined) {
      result.failures.push(`  ✗ ${data.name} (line ${data.line})\n${indent(inspect(error))}`);
    } else if (type === 'test:pass' && data.details.type !== 'suite') {
      result.passed += 1;
    }
  }
  clearTimeout(silence);
  return new Map(jobs.map((job) => [job, conclude(job, results.get(job.file) ?? newResult(), stop)]));
}

const newResult = (): Result => ({ passed: 0, skipped: 0, failures: [], seeds: new Set(), output: [], milliseconds: 0 });

const hasFailedTests = (error: Error) => 'failureType' in error && error.failureType === 'subtestsFailed';

/** Prints what became of a file. */
function conclude({ name }: Job, result: Result, stop: AbortSignal): Outcome {
  const { passed, skipped, failures, seeds, output } = result;
  if (passed + skipped + failures.length === 0 && !stop.aborted)
    failures.push('  ✗ the file has no tests, or its process ended before them');
  const seconds = `${(result.milliseconds / 1000).toFixed(1)} s${seeds.size === 0 ? '' : `  (${[...seeds].join(', ')})`}`;
  if (failures.length === 0) {
    console.log(`✓ ${name}  ${passed}${skipped > 0 ? ` (${skipped} skipped)` : ''}  ${seconds}`);
  } else {
    console.log(`✗ ${name}  ${failures.length} failed  ${seconds}`);
    for (const failure of failures) console.log(failure);
    if (output.length > 0) console.log(`  what it printed:\n${indent(output.join('').trimEnd())}`);
  }
  return { passed, skipped, failed: failures.length };
}

const indent = (text: string) => text.replace(/^/gm, '    ');
