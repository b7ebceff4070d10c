// The embedded engine's thread. What comes is PostgreSQL's protocol, as over a connection, and so is what goes back.
import { parentPort, workerData } from 'node:worker_threads';
import { PGlite } from '@electric-sql/pglite';

/** All of the engine's cache is resident from the start; beyond this, the system's page cache serves. Of files of its log it keeps a gigabyte otherwise. */
const startParams = [...PGlite.defaultStartParams, '-c', 'shared_buffers=32MB', '-c', 'max_wal_size=256MB'];
const pglite = await PGlite.create({ dataDir: workerData, startParams });
parentPort?.on('message', async (messages: Uint8Array | 'close') => {
  if (messages === 'close') {
    await pglite.close();
    parentPort?.close();
    return;
  }
  const answer = pglite.execProtocolRawSync(messages).slice();
  parentPort?.postMessage(answer, [answer.buffer]);
});
parentPort?.postMessage('ready');
