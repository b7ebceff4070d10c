import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { call, headers } from './parley.ts';

export const managedPath = '/demo/assistant/v1/managed-agents/sessions';

export async function createManagedSession(url: string): Promise<string> {
  return (await call<{ id: string }>({ url }, managedPath, { prewarm: false })).id;
}

/** Follows the session's log on a bare socket, so that thousands cost little on this side. Resolves when the first bytes have come. */
export async function openStream(url: string, sessionId: string, onText: (text: string) => void): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname).setEncoding('latin1').on('data', onText);
  socket.write(`GET ${managedPath}/${sessionId}/events/stream HTTP/1.1\r\nHost: bench\r\nAuthorization: ${headers.authorization}\r\n\r\n`);
  await once(socket, 'data');
  return socket;
}
