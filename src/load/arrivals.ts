import { subscribe } from 'node:diagnostics_channel';
import { setImmediate as nextPass } from 'node:timers/promises';

/** Some milliseconds, when each pass brings a connection and its request. */
const maxPasses = 32;

let connections = 0;
subscribe('net.server.socket', () => {
  connections += 1;
});

/**
 * Lets the process look at its sockets before it goes on. A server takes one new connection in each pass of the event loop:
 * while they come, more wait, and whoever is not taken cannot be refused.
 */
export async function lookAtSockets(): Promise<void> {
  for (let passes = 0; passes < maxPasses; passes += 1) {
    const before = connections;
    await nextPass();
    if (connections === before) return;
  }
}
