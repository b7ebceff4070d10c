import assert from 'node:assert/strict';
import cluster from 'node:cluster';
import { once } from 'node:events';
import { test } from 'node:test';
import { machineShare } from '../../src/machine-share.ts';

// This file is also the worker that the test starts.
if (cluster.isWorker) process.send?.(machineShare());
else test('the processes of --workers share the cores and the memory of the machine', compareWithWorker);

async function compareWithWorker(): Promise<void> {
  cluster.setupPrimary({ exec: import.meta.filename, args: ['serve', '--workers', '4'], execArgv: [] });
  const worker = cluster.fork();
  const [share] = await once(worker, 'message');
  worker.process.kill();
  await once(worker, 'exit');
  const { cores, memory } = machineShare();
  assert.deepEqual(share, { cores: cores / 4, memory: memory / 4 });
}
