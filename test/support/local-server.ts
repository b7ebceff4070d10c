import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';

export interface LocalServer {
  port: number;
  origin: string;
  /** How many sockets were ever accepted. */
  connections(): number;
  close(): void;
}

/** A plain HTTP server on a free port of this machine. */
export async function serveLocally(listener: RequestListener): Promise<LocalServer> {
  let connections = 0;
  const server = createServer(listener).on('connection', () => {
    connections += 1;
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('The server has no port');
  return {
    port: address.port,
    origin: `http://127.0.0.1:${address.port}`,
    connections: () => connections,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}
