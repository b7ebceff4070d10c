// Starts a private Redis for one test, on its own port and with nothing on disk.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { createInterface } from 'node:readline';
import type { Owner } from './app.ts';
import { endWithUs } from './end-with-us.ts';
import { freePort } from './free-port.ts';
import { findRedis } from './programs.ts';

export interface RedisServer {
  url: string;
  readonly pid: number;
  /** Ends every connection at once, as a crash would. */
  stop(): Promise<void>;
  /** Starts it again, empty, on the same port. */
  start(): Promise<void>;
}

export async function startRedis(owner: Owner): Promise<RedisServer> {
  const program = findRedis();
  const port = await freePort();
  let server: ChildProcess | undefined;
  const stop = async () => {
    if (server === undefined || server.exitCode !== null || server.signalCode !== null) return;
    const exited = once(server, 'exit');
    server.kill('SIGKILL');
    await exited;
  };
  const start = async () => {
    const args = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', tmpdir()];
    const started = spawn(program, args, { stdio: ['ignore', 'pipe', 'ignore'] });
    server = started;
    started.once(
      'exit',
      endWithUs(() => started.kill('SIGKILL')),
    );
    for await (const line of createInterface({ input: started.stdout })) {
      if (!/Ready to accept connections/.test(line)) continue;
      started.stdout.resume();
      return;
    }
    throw new Error('Redis did not start');
  };
  await start();
  owner.after(stop);
  return {
    url: `redis://127.0.0.1:${port}`,
    get pid() {
      return server?.pid ?? 0;
    },
    stop,
    start,
  };
}
