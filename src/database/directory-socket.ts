import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { errorCode } from '../errors.ts';

/** What the kernel takes as the path of a socket, on every system that has them. */
const maxPathBytes = 103;

/**
 * Whether a process of this machine holds the directory, in whatever container: the kernel answers for one that is busy or
 * halted, and no longer for one that was killed. Pids say nothing there: each container has its own.
 */
export async function isDirectoryHeld(directory: string): Promise<boolean> {
  const socket = connect(pathIn(directory));
  try {
    await once(socket, 'connect');
    return true;
  } catch (error) {
    // So many that ask that the kernel lets no more wait.
    return errorCode(error) === 'EAGAIN';
  } finally {
    socket.destroy();
  }
}

/** Gives a function that lets go. Where there can be no socket, such as on some shared folders, the pid has to do. */
export async function holdDirectory(directory: string): Promise<() => void> {
  const path = pathIn(directory);
  if (process.platform === 'win32' || Buffer.byteLength(path) > maxPathBytes) return () => {};
  rmSync(path, { force: true });
  const server = createServer((socket) => socket.destroy()).listen(path);
  server.unref();
  const isListening = await once(server, 'listening').then(
    () => true,
    () => false,
  );
  return () => {
    if (isListening) server.close();
  };
}

function pathIn(directory: string): string {
  return join(directory, 'parley.sock');
}
