import cluster, { type Worker } from 'node:cluster';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Config, ConfigError } from './config.ts';
import { answerMetrics } from './telemetry/worker-metrics.ts';

const restartAfterMs = 500;

export const stopSignals = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

/** What a worker says when it takes requests. */
export const serving = 'serving';

/** What one says that is told to stop, and what it then hears. */
const leaving = 'leaving';
const answers = { replaced: 'another is started', stopping: 'all of them stop' };
const patienceMs = 1_000;

/**
 * Runs `count` server processes behind one port, each with its own event loop, and starts another for one that stops or dies.
 * The first goes ahead: a start that fails says so once and ends. A signal is passed on; this process ends when they have.
 */
export function runWorkers(count: number, config: Config): void {
  if (config.DATABASE_URL === undefined) {
    throw new ConfigError('--workers: several processes need DATABASE_URL; the embedded database takes one');
  }
  let stopping = false;
  let hasServed = false;
  const workers = new Set<Worker>();
  const start = () => {
    if (stopping) return;
    let isReplaced = false;
    const worker = cluster.fork();
    workers.add(worker);
    answerMetrics(worker, workers);
    worker.on('message', (message: unknown) => {
      if (message === leaving) {
        isReplaced = !stopping;
        // One that is killed meanwhile does not hear it, which is no reason to end.
        worker.send(isReplaced ? answers.replaced : answers.stopping, () => undefined);
        if (isReplaced) process.stderr.write(`parley: process ${worker.process.pid} was told to stop; another is started\n`);
        start();
      }
      if (message !== serving || hasServed) return;
      hasServed = true;
      for (let index = 1; index < count; index += 1) start();
    });
    worker.on('exit', (code, signal) => {
      workers.delete(worker);
      if (stopping) process.exitCode ||= code;
      if (stopping || isReplaced) return;
      // What keeps the first from starting would keep the others.
      if (!hasServed) process.exit(code || 1);
      process.stderr.write(`parley: process ${worker.process.pid} ended (${signal ?? `exit code ${code}`}); another is started\n`);
      setTimeout(start, restartAfterMs);
    });
  };
  for (const signal of stopSignals) {
    process.on(signal, () => {
      stopping = true;
      for (const worker of workers) worker.process.kill(signal);
    });
  }
  start();
}

/** In a worker that is told to stop: whether the others go on, and another takes its place. */
export async function askForAnother(): Promise<boolean> {
  if (!cluster.worker?.isConnected()) return false;
  const { promise, resolve } = Promise.withResolvers<boolean>();
  process.on('message', (message: unknown) => {
    if (message === answers.replaced) resolve(true);
    if (message === answers.stopping) resolve(false);
  });
  process.send?.(leaving);
  return Promise.race([promise, sleep(patienceMs, false)]);
}
