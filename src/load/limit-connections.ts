import { readFileSync } from 'node:fs';
import type { Server, Socket } from 'node:net';
import type { Logger } from '../telemetry/logger.ts';

/** File descriptors that connections never take. A process has 200 at its start; the database, models and tools open more. */
const leastOwn = 768;

/**
 * Closes connections beyond those that leave enough file descriptors for everything else. If anybody could take the last one by
 * connecting, the embedded engine could fail to create a file: it believes from then on, until a restart, that this file exists.
 */
export function limitConnections(server: Server, logger: Logger, max = connectionsFor(openFilesLimit())): void {
  const tooMany = new Error(`${max} connections are open`);
  let open = 0;
  server.on('connection', (socket: Socket) => {
    open += 1;
    socket.once('close', () => {
      open -= 1;
    });
    if (open <= max) return;
    socket.resetAndDestroy();
    logger.warn({ err: tooMany }, 'connections are dropped: raise the limit of open files (ulimit -n)');
  });
}

/** How many connections are taken by a process that may open this many files. */
export function connectionsFor(openFiles: number): number {
  return Math.floor(Math.max(openFiles / 8, openFiles - Math.max(leastOwn, openFiles / 4)));
}

/** Known on Linux only. Node has raised it as far as the system allows. */
export function openFilesLimit(): number {
  try {
    const [, limit] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return Number(limit ?? Number.MAX_SAFE_INTEGER);
  } catch {
    return Number.MAX_SAFE_INTEGER;
  }
}
