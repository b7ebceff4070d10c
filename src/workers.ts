import cluster, { type Worker } from 'node:cluster';
import { type Config, ConfigError } from './config.ts';
import { answerMetrics } from './telemetry/worker-metrics.ts';

const restartAfterMs = 500;

export const stopSignals = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

/** What a worker says when it takes requests. */
export const serving = 'serving';

/**
 * Runs `count` server processes behind one port, each with its own event loop, and starts another for one that dies. The
 * first goes ahead: a start that fails says so once and ends. A signal is passed on; this process ends when they have.
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
    const worker = cluster.fork();
    workers.add(worker);
    answerMetrics(worker, workers);
    worker.on('message', (message: unknown) => {
      if (message !== serving || hasServed) return;
      hasServed = true;
      for (let index = 1; index < count; index += 1) start();
    });
    worker.on('exit', (code, signal) => {
      workers.delete(worker);
      if (stopping) return;
      // A setting that one process cannot use, none can; and what keeps the first from starting would keep the others.
      if (code === 2 || !hasServed) process.exit(code || 1);
      process.stderr.write(`parley: process ${worker.process.pid} ended (${signal ?? `exit code ${code}`}); another is started\n`);
      setTimeout(start, restartAfterMs);
    });
  };
  start();
  for (const signal of stopSignals) {
    process.on(signal, () => {
      stopping = true;
      for (const worker of workers) worker.process.kill(signal);
    });
  }
}
