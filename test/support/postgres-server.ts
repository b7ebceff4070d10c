// Starts a private PostgreSQL with its own data folder, port and password, and removes it afterwards.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { endWithUs } from './end-with-us.ts';
import { freePort } from './free-port.ts';
import { findPostgres } from './programs.ts';

export interface PostgresServer {
  /** Connects as the superuser; the path names a database that always exists. */
  url: string;
  /** The process id of the postmaster, the parent of all other processes of the server. */
  readonly pid: number;
  /** Ends every connection at once, as a crash would, and starts again after `downMs` on the same port with the same data. */
  restart(downMs?: number): Promise<void>;
  stop(): Promise<void>;
}

/** Its settings are for speed, not durability, unless `more` overrides them. `parent` is where its data folder is created. */
export async function startPostgres(more: Record<string, string> = {}, parent: string = tmpdir()): Promise<PostgresServer> {
  const binaries = findPostgres();
  const owner = unprivilegedUser();
  const folder = mkdtempSync(join(parent, 'parley-postgres-'));
  const data = join(folder, 'data');
  const passwordFile = join(folder, 'password');
  const password = randomBytes(12).toString('hex');
  mkdirSync(data);
  writeFileSync(passwordFile, password);
  if (owner) for (const path of [folder, data, passwordFile]) chownSync(path, owner.uid, owner.gid);
  chmodSync(folder, 0o700);
  const options = { cwd: folder, ...owner };
  const authentication = ['--username=parley', `--pwfile=${passwordFile}`, '--auth=md5'];
  execFileSync(join(binaries, 'initdb'), [`--pgdata=${data}`, ...authentication, '--encoding=UTF8', '--locale=C', '--no-sync'], {
    ...options,
    stdio: ['ignore', 'ignore', 'inherit'],
  });

  const port = await freePort();
  const start = () => startServer(join(binaries, 'postgres'), data, port, options, more);
  let server = await start();
  const stopServer = async () => {
    if (server.exitCode !== null || server.signalCode !== null) return;
    server.ref();
    const exited = once(server, 'exit');
    server.kill('SIGQUIT');
    await exited;
  };
  const forget = endWithUs(() => {
    server.kill('SIGQUIT');
    removeFolder(folder);
  });
  return {
    url: `postgresql://parley:${password}@127.0.0.1:${port}/postgres`,
    get pid() {
      return server.pid ?? 0;
    },
    restart: async (downMs = 0) => {
      await stopServer();
      await sleep(downMs);
      server = await start();
    },
    stop: async () => {
      forget();
      await stopServer();
      removeFolder(folder);
    },
  };
}

async function startServer(
  program: string,
  data: string,
  port: number,
  options: object,
  more: Record<string, string>,
): Promise<ChildProcess> {
  // The data need not survive a power loss.
  const settings = {
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    port,
    fsync: 'off',
    synchronous_commit: 'off',
    full_page_writes: 'off',
    max_connections: 300,
    ...more,
  };
  const args = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const server = spawn(program, ['-D', data, ...args], { ...options, stdio: ['ignore', 'ignore', 'pipe'] });
  const printed: string[] = [];
  for await (const line of createInterface({ input: server.stderr })) {
    printed.push(line);
    if (line.includes('ready to accept connections')) {
      server.stderr.resume();
      // Neither the process nor its output may keep a finished test file alive.
      server.unref();
      if ('unref' in server.stderr && typeof server.stderr.unref === 'function') server.stderr.unref();
      return server;
    }
  }
  throw new Error(`PostgreSQL did not start:\n${printed.join('\n')}`);
}

/** Synchronous, because it runs while our process ends. It repeats, because the server may still be writing for a moment. */
function removeFolder(folder: string): void {
  for (let attempt = 0; attempt < 40 && existsSync(folder); attempt += 1) {
    if (attempt > 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
    // With `force`, this does not throw when a new file appeared in a folder that it had emptied.
    rmSync(folder, { recursive: true, force: true });
  }
}

/** PostgreSQL refuses to run as root. */
function unprivilegedUser(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const id = (flag: string, user: string) =>
    Number(execFileSync('id', [flag, user], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }));
  for (const user of ['postgres', 'nobody']) {
    try {
      return { uid: id('-u', user), gid: id('-g', user) };
    } catch {
      // No such user: the next one.
    }
  }
  throw new Error('PostgreSQL cannot run as root, and there is no user postgres or nobody');
}
