// Imitates PgBouncer in transaction mode, as far as starting a server needs it: all clients share one connection to PostgreSQL.
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import pg from 'pg';
import type { Owner } from './app.ts';

/** AuthenticationOk, and ReadyForQuery outside of a transaction. */
const welcome = Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 0, 0x5a, 0, 0, 0, 5, 0x49]);
const terminate = 0x58;

/** Returns the URL of the same database through the pooler. */
export async function startTransactionPooler(owner: Owner, url: string): Promise<string> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  client.on('error', () => {});
  const shared = client.connection.stream;
  shared.removeAllListeners('data');
  let speaker: Socket | undefined;
  shared.on('data', (answer) => speaker?.write(answer));
  const listener = createServer((socket) => {
    socket.once('data', () => {
      socket.write(welcome);
      socket.on('data', (request) => {
        if (request[0] === terminate) return socket.destroy();
        speaker = socket;
        shared.write(request);
      });
    });
    socket.on('error', () => {});
  });
  await once(listener.listen(0, '127.0.0.1'), 'listening');
  owner.after(async () => {
    shared.destroy();
    listener.close();
  });
  const address = listener.address();
  const through = new URL(url);
  if (address !== null && typeof address === 'object') through.port = String(address.port);
  return through.href;
}
