import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { call, headers } from './parley.ts';

export const managedPath = '/demo/assistant/v1/managed-agents/sessions';

export async function createManagedSession(url: string): Promise<string> {
  return (await call<{ id: string }>({ url }, managedPath, { prewarm: false })).id;
}

/** Follows the session's log on a bare socket, so that thousands cost little on this side. Resolves when the first bytes have come. */
export async function openStream(url: string, sessionId: string, onText: (text: string) => void): Promise<Socket> {
  const { hostname, port } = new URL(url);
  for (;;) {
    const socket = connect(Number(port), hostname).setEncoding('latin1').on('data', onText);
    socket.write(
      `GET ${managedPath}/${sessionId}/events/stream HTTP/1.1\r\nHost: bench\r\nAuthorization: ${headers.authorization}\r\n\r\n`,
    );
    const [head] = (await once(socket, 'data')) as [string];
    if (head.startsWith('HTTP/1.1 200 ')) return socket;
    socket.destroy();
    // Hundreds that are opened at once may be more than a slow machine takes up in a second.
    if (!head.startsWith('HTTP/1.1 503 ')) throw new Error(head);
    await sleep(1_000);
  }
}
