import type { Worker } from 'node:cluster';
import { fieldOf } from '../text/json.ts';

/**
 * Closes the connections that node:cluster forgets: their clients would wait forever. The primary process hands a connection to a worker
 * with a numbered message (`newconn`). The worker answers with that number: it took the connection, or refuses it, because it no longer
 * listens. Two kinds are forgotten:
 * - Those that a worker had not answered when it died.
 * - Those that a worker refuses after the last one had stopped listening. The socket that the workers shared is closed then, and what they
 *   refuse afterwards goes into its queue. Workers that start later share another socket and never look there.
 */
export function closeForgotten(): (worker: Worker) => void {
  const listening = new Set<Worker>();
  let closedSockets = 0;
  return (worker) => {
    const untaken = new Map<unknown, { connection: unknown; closedBefore: number }>();
    const send = worker.process.send.bind(worker.process);
    Object.assign(worker.process, {
      send(...sent: Parameters<typeof send>) {
        const [message, connection] = sent;
        if (fieldOf(message, 'act') === 'newconn') untaken.set(fieldOf(message, 'seq'), { connection, closedBefore: closedSockets });
        return send(...sent);
      },
    });
    const stopListening = () => {
      if (listening.delete(worker) && listening.size === 0) closedSockets += 1;
    };
    worker.process.on('internalMessage', (message: unknown) => {
      const act = fieldOf(message, 'act');
      if (act === 'queryServer') listening.add(worker);
      if (act === 'close') stopListening();
      const answered = fieldOf(message, 'ack');
      const handed = untaken.get(answered);
      untaken.delete(answered);
      if (handed !== undefined && fieldOf(message, 'accepted') === false && handed.closedBefore < closedSockets)
        closeConnection(handed.connection);
    });
    worker.on('disconnect', stopListening);
    worker.on('exit', () => {
      if (!worker.isConnected()) stopListening();
      for (const { connection } of untaken.values()) closeConnection(connection);
    });
  };
}

/** What node:cluster hands over is neither a `Socket` nor anything else that has a public type. */
function closeConnection(connection: unknown): void {
  if (typeof connection === 'object' && connection !== null && 'close' in connection && typeof connection.close === 'function')
    connection.close();
}
