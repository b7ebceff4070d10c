import cluster, { type Worker } from 'node:cluster';
import { constants } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Config, ConfigError } from '../config.ts';
import { errorMessage } from '../errors.ts';
import { answerMetrics } from '../telemetry/worker-metrics.ts';
import { closeForgotten } from './close-forgotten.ts';
import { tryAddress } from './try-address.ts';

const restartAfterMs = 500;

export const stopSignals = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

/** A worker's message to the primary process: it accepts requests. */
export const serving = 'serving';

/** A worker's message when it was told to stop, and the two answers. */
const leaving = 'leaving';
const answers = { replaced: 'another serves', stopping: 'all of them stop' };
/** How long a worker that was told to stop waits for another to serve: many times what a start takes, which on a busy machine can be seconds. */
const replacementMs = 15_000;

/**
 * Runs `count` server processes behind one port, each with its own event loop, and replaces those that stop or die. The first worker
 * is started alone, so that a start that fails is reported once. Signals are passed on; this process ends when all workers have.
 */
export async function runWorkers(count: number, config: Config): Promise<void> {
  if (config.DATABASE_URL === undefined) {
    throw new ConfigError('--workers: several processes need DATABASE_URL; the embedded database takes one');
  }
  // Lines about workers are lost when nobody reads them or the disk is full. Without a listener, the error would end all workers.
  process.stderr.on('error', () => {});
  let stopping = false;
  let hasServed = false;
  const workers = new Set<Worker>();
  const closeForgottenBy = closeForgotten();
  /** `leaver` is told when the new worker serves. Until then it listens: it may be the only one that does. */
  const start = (leaver?: Worker) => {
    if (stopping) return;
    const startLater = (error: unknown) => {
      process.stderr.write(`parley: a process cannot be started (${errorMessage(error)})\n`);
      if (!hasServed) process.exit(1);
      setTimeout(start, restartAfterMs, leaver);
    };
    let isReplaced = false;
    let worker: Worker;
    try {
      worker = cluster.fork();
    } catch (error) {
      return startLater(error);
    }
    // Without a listener, either kind would end all workers: that it cannot be started, and that it has died before it got a message, of
    // which `exit` tells.
    worker.on('error', (error: unknown) => {
      if (worker.process.pid !== undefined) return;
      delete cluster.workers?.[worker.id];
      startLater(error);
    });
    if (worker.process.pid === undefined) return;
    workers.add(worker);
    answerMetrics(worker, workers, count);
    closeForgottenBy(worker);
    const onLeaving = () => {
      if (stopping) return tell(worker, answers.stopping);
      isReplaced = true;
      process.stderr.write(`parley: process ${worker.process.pid} was told to stop; another is started\n`);
      start(worker);
    };
    const onServing = () => {
      if (leaver !== undefined) tell(leaver, answers.replaced);
      if (hasServed) return;
      hasServed = true;
      for (let index = 1; index < count; index += 1) start();
    };
    worker.on('message', (message: unknown) => {
      if (message === leaving) onLeaving();
      if (message === serving) onServing();
    });
    worker.on('exit', (code, signal) => {
      workers.delete(worker);
      if (stopping) process.exitCode ||= code;
      if (stopping || isReplaced) return;
      // The first worker could not start, so no other could.
      if (!hasServed) process.exit(code || 1);
      process.stderr.write(`parley: process ${worker.process.pid} ended (${signal ?? `exit code ${code}`}); another is started\n`);
      setTimeout(start, restartAfterMs, leaver);
    });
  };
  for (const signal of stopSignals) {
    process.on(signal, () => {
      stopping = true;
      // As a single process that is stopped while it starts: nobody was served.
      if (!hasServed) process.exitCode = 128 + constants.signals[signal];
      for (const worker of workers) {
        worker.process.kill(signal);
        tell(worker, answers.stopping);
      }
    });
  }
  await tryAddress(config);
  start();
}

/** A failure is ignored: the worker may have been killed meanwhile. */
function tell(worker: Worker, message: string): void {
  if (worker.isConnected()) worker.send(message, () => undefined);
}

/**
 * In a worker that was told to stop: tells the primary process. True once a new worker serves in its place; false if all workers stop, or
 * no other could start in time.
 */
export async function askForReplacement(): Promise<boolean> {
  if (!cluster.worker?.isConnected()) return false;
  const { promise, resolve } = Promise.withResolvers<boolean>();
  process.on('message', (message: unknown) => {
    if (message === answers.replaced) resolve(true);
    if (message === answers.stopping) resolve(false);
  });
  process.send?.(leaving);
  return Promise.race([promise, sleep(replacementMs, false, { ref: false })]);
}
