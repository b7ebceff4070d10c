// A server in a process of its own, which a test can kill and start again on the same data.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { apiKey, type Owner, operatorKey } from './app.ts';
import { endWithUs } from './end-with-us.ts';
import { createDatabase, type TestDatabase } from './engine.ts';
import { freePort } from './free-port.ts';

export const main = join(import.meta.dirname, '../../src/main.ts');
/** The compile cache of `npm start`. Set from outside, it also covers main.ts itself and PGlite's thread. */
const compiled = join(import.meta.dirname, '../../node_modules/.cache/parley/compiled');

export interface ServerProcess {
  url: string;
  apiKey: string;
  operatorKey: string;
  database: TestDatabase;
  readonly pid: number;
  /** Everything that it has printed so far, over all its starts. */
  output(): string;
  /** As a power cut would: `kill -9`. */
  kill(): Promise<void>;
  /** Sends a signal, SIGTERM by default, and returns the exit code. */
  stop(signal?: NodeJS.Signals): Promise<number | null>;
  /** Starts it again, on the same data and port, and waits until it is ready. */
  start(): Promise<void>;
  /** The same without waiting, for a test that kills it before it is ready. */
  launch(): void;
}

export interface ServerOptions {
  settings?: Record<string, string>;
  /** For a server whose address others must know before it starts. */
  port?: number;
  /** Use this database instead of a new one, and do not remove it, so that several servers can share it. */
  database?: TestDatabase;
}

/** Starts a server and waits for its `/readyz`. It is killed, if it still runs, when its owner ends. */
export async function startServer(owner: Owner, options: ServerOptions = {}): Promise<ServerProcess> {
  const database = options.database ?? (await createDatabase());
  const port = options.port ?? (await freePort());
  const url = `http://127.0.0.1:${port}`;
  const printed: string[] = [];
  let child: ChildProcess | undefined;

  const end = async (signal: NodeJS.Signals): Promise<number | null> => {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return child?.exitCode ?? null;
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
    return child.exitCode;
  };
  owner.after(async () => {
    await end('SIGKILL');
    if (options.database === undefined) await database.remove();
  });

  const launch = (): ChildProcess => {
    child = spawnServer({ ...database.settings, PORT: String(port), ...options.settings }, (text) => printed.push(text));
    return child;
  };
  const server: ServerProcess = {
    url,
    apiKey,
    operatorKey,
    database,
    get pid() {
      return child?.pid ?? 0;
    },
    output: () => printed.join(''),
    async kill() {
      await end('SIGKILL');
    },
    stop: (signal = 'SIGTERM') => end(signal),
    async start() {
      await untilReady(url, launch(), server.output);
    },
    launch,
  };
  await server.start();
  return server;
}

/**
 * With the first, V8 does not optimize PGlite's WebAssembly, for the reason given in engine.ts. With the second, it begins with a large
 * heap: growing it takes 2 to 5 % of the CPU time of a start.
 */
const flags = ['--liftoff-only', '--initial-old-space-size=256'];

/** Runs the server with only these environment variables, in a directory without a `.env` file. */
export function spawnServer(settings: Record<string, string>, print: (text: string) => void, args: string[] = []): ChildProcess {
  const keys = { PARLEY_API_KEY: apiKey, PARLEY_OPERATOR_KEY: operatorKey };
  const child = spawn(process.execPath, [...flags, main, ...args], {
    cwd: settings.PARLEY_DATA_DIR,
    env: { PATH: process.env.PATH, NODE_COMPILE_CACHE: compiled, ...keys, PARLEY_LOG_LEVEL: 'warn', ...settings },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const forget = endWithUs(() => child.kill('SIGKILL'));
  child.once('exit', forget);
  child.stdout?.setEncoding('utf8').on('data', print);
  child.stderr?.setEncoding('utf8').on('data', print);
  return child;
}

/** Runs the server in a case where it ends by itself; returns its exit code and output. */
export async function runToEnd(settings: Record<string, string>, args: string[] = []): Promise<{ code: number | null; output: string }> {
  const printed: string[] = [];
  const child = spawnServer({ PORT: '0', PARLEY_LOG_LEVEL: 'error', ...settings }, (text) => printed.push(text), args);
  await once(child, 'close');
  return { code: child.exitCode, output: printed.join('') };
}

/** Waits for the line that the server prints when it is ready, then for its `/readyz`: asking all the time would cost as much as it does. */
async function untilReady(url: string, child: ChildProcess, output: () => string): Promise<void> {
  const late = AbortSignal.timeout(30_000);
  const { promise: saidSo, resolve } = Promise.withResolvers<void>();
  child.stdout?.on('data', (text: string) => text.includes('Parley is ready at ') && resolve());
  await Promise.race([saidSo, once(child, 'exit'), once(late, 'abort')]);
  while (!late.aborted) {
    if (child.exitCode !== null || child.signalCode !== null) throw new Error(`the server ended before it was ready:\n${output()}`);
    const response = await fetch(`${url}/readyz`).catch(() => undefined);
    await response?.body?.cancel();
    if (response?.status === 200) return;
    await sleep(25);
  }
  throw new Error(`the server was not ready within 30 s:\n${output()}`);
}
