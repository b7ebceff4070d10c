import cluster, { type Worker } from 'node:cluster';
import { type Config, ConfigError } from './config.ts';

const restartAfterMs = 500;

/**
 * Runs `count` server processes behind one port, each with its own event loop, and starts another for one that dies.
 * A signal is passed on; this process ends when they have.
 */
export function runWorkers(count: number, config: Config): void {
  if (config.DATABASE_URL === undefined) {
    throw new ConfigError('--workers: several processes need DATABASE_URL; the embedded database takes one');
  }
  let stopping = false;
  const workers = new Set<Worker>();
  const start = () => {
    if (stopping) return;
    const worker = cluster.fork();
    workers.add(worker);
    worker.on('exit', (code) => {
      workers.delete(worker);
      // A setting that one process cannot use, none can.
      if (code === 2 && !stopping) process.exit(2);
      setTimeout(start, restartAfterMs);
    });
  };
  for (let index = 0; index < count; index += 1) start();
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      stopping = true;
      for (const worker of workers) worker.process.kill(signal);
    });
  }
}

/** `--workers N` of a command line. */
export function workerCount(args: string[]): number | undefined {
  const index = args.indexOf('--workers');
  if (index < 0) return undefined;
  const count = Number(args[index + 1]);
  if (!Number.isInteger(count) || count < 1 || count > 256) throw new ConfigError('--workers: must be a whole number from 1 to 256');
  return count;
}
