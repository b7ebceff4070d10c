import cluster from 'node:cluster';
import { availableParallelism, totalmem } from 'node:os';
import { readArguments } from './start/arguments.ts';

/** What this process may use of its machine or container. The processes of `--workers` share it equally. */
export function machineShare(): { cores: number; memory: number } {
  const processes = (cluster.isWorker ? readArguments(process.argv.slice(2)).workers : undefined) ?? 1;
  const memory = Math.min(process.constrainedMemory() || Infinity, totalmem());
  return { cores: availableParallelism() / processes, memory: memory / processes };
}
