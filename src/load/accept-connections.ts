import { subscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { createServer, type ListenOptions, type Server } from 'node:net';
import { setImmediate as nextPass } from 'node:timers/promises';

/** Beside the server's own. */
const moreListeners = 31;

/** Takes some milliseconds when each pass accepts a connection and reads its request. */
const maxPasses = 32;

let accepted = 0;
subscribe('net.server.socket', () => {
  accepted += 1;
});

/**
 * Lets the event loop accept the connections that wait in the kernel, before more work is begun. It accepts one in each pass, so
 * passes are added for as long as connections keep coming: a client whose connection is not accepted cannot be refused either.
 */
export async function acceptConnections(): Promise<void> {
  for (let passes = 0; passes < maxPasses; passes += 1) {
    const before = accepted;
    await nextPass();
    if (accepted === before) return;
  }
}

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
