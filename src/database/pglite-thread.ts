// The thread of the embedded engine. The messages in both directions are PostgreSQL's wire protocol, as over a connection.
import { parentPort, workerData } from 'node:worker_threads';
import { PGlite } from '@electric-sql/pglite';

/**
 * The engine allocates its whole cache at the start, so it is small: the system's page cache does the rest. By default it would
 * keep a gigabyte of log files.
 */
const startParams = [...PGlite.defaultStartParams, '-c', 'shared_buffers=32MB', '-c', 'max_wal_size=256MB'];
const pglite = await PGlite.create({ dataDir: workerData, startParams });
parentPort?.on('message', async (messages: Uint8Array | 'close') => {
  if (messages === 'close') {
    await pglite.close();
    parentPort?.close();
    return;
  }
  const pieces: Uint8Array[] = [];
  // Not `execProtocolRawSync`, which also parses every answer and keeps it as long as the thread lives.
  await pglite.execProtocolRawStream(messages, { syncToFs: false, onRawData: (piece) => pieces.push(piece.slice()) });
  // A copy with a buffer of its own, which can be handed over.
  const answer = new Uint8Array(Buffer.concat(pieces));
  parentPort?.postMessage(answer, [answer.buffer]);
});
parentPort?.postMessage('ready');
