import { subscribe } from 'node:diagnostics_channel';
import { setImmediate as nextPass } from 'node:timers/promises';

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
