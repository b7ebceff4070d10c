import type { Server } from 'node:http';

/** Listens on a free port and prints it, which `startProgram` waits for. */
export function listen(server: Server): void {
  server.listen(0, '127.0.0.1', () => {
    const address = server.address();
    process.stdout.write(`ready ${typeof address === 'object' ? address?.port : address}\n`);
  });
  process.on('SIGTERM', () => process.exit(0));
}
