import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { errorCode } from '../errors.ts';

/** The longest path of a socket that every system accepts. */
const maxPathBytes = 103;

/**
 * Whether a process of this machine holds the directory. A pid cannot tell, because each container has its own; a socket in the
 * directory can: the kernel accepts connections for a process that is busy or halted, and not for one that was killed.
 */
export async function isDirectoryHeld(directory: string): Promise<boolean> {
  const socket = connect(pathIn(directory));
  try {
    await once(socket, 'connect');
    return true;
  } catch (error) {
    // It is held, but too many processes are asking at once.
    return errorCode(error) === 'EAGAIN';
  } finally {
    socket.destroy();
  }
}

/** Returns a function that lets go. Where no socket can be created, as on some shared folders, only the pid file protects the directory. */
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
