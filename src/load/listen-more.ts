import { once } from 'node:events';
import { createServer, type ListenOptions, type Server } from 'node:net';

/** Beside the server's own. */
const moreListeners = 31;

/**
 * Opens more sockets that listen on the server's address and gives their connections to the server. In each pass the event loop accepts
 * one connection for each socket: when many running turns make a pass take 20 ms, 500 clients that connect at once would wait for 10 s
 * at a single socket, and a health check behind them. The server itself must listen with `reusePort` too.
 */
export async function listenMore(server: Server, address: ListenOptions): Promise<Server[]> {
  const listeners = Array.from({ length: moreListeners }, () =>
    createServer({ noDelay: true }, (socket) => server.emit('connection', socket)),
  );
  await Promise.all(listeners.map((listener) => once(listener.listen({ ...address, reusePort: true }), 'listening')));
  return listeners;
}
