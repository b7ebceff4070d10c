// `node bench/streams.ts [count]`: opens that many event streams on one server process and prints the memory per stream. It starts itself
// again as `serve` for that process.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createApp } from '../src/app.ts';
import { loadConfig } from '../src/config.ts';
import { createContext } from '../src/start/create-context.ts';
import { startPostgres } from '../test/support/postgres-server.ts';
import { createDatabase } from './databases.ts';
import { createManagedSession, openStream } from './managed-session.ts';
import { key } from './parley.ts';

const streamsPerSession = 10;

interface Memory {
  rss: number;
  heapUsed: number;
  external: number;
  streams: number;
}

if (process.argv[2] === 'serve') await serve();
else if (import.meta.main) await measureAlone();

async function measureAlone(): Promise<void> {
  const postgres = await startPostgres();
  process.stdout.write(await measureStreams(postgres.url, Number(process.argv[2] ?? '10000')));
  await postgres.stop();
}

/** Uses PostgreSQL, because PGlite's memory would be part of the server's. */
export async function measureStreams(serverUrl: string, count: number): Promise<string> {
  const databaseUrl = await createDatabase(serverUrl, 'streams');
  const directory = mkdtempSync(join(tmpdir(), 'parley-streams-'));
  const server = fork(fileURLToPath(import.meta.url), ['serve'], {
    execArgv: ['--expose-gc'],
    env: {
      PATH: process.env.PATH,
      DATABASE_URL: databaseUrl,
      PARLEY_DATA_DIR: directory,
      PARLEY_API_KEY: key,
      PARLEY_LOG_LEVEL: 'warn',
      PARLEY_RATE_LIMIT_RPS: '0',
    },
  });
  const [port] = (await once(server, 'message')) as [number];
  const url = `http://127.0.0.1:${port}`;
  const lines = [
    '## Open event streams on one process',
    '',
    '| streams | RSS MiB | heap MiB | KiB RSS per stream | KiB heap per stream |',
    '|---|---|---|---|---|',
  ];
  const sockets: Socket[] = [];
  const sessions: string[] = [];
  try {
    // The first streams are not counted: with them, code is loaded and V8's young generation grows to its full size (48 MiB).
    await open(url, sessions, sockets, 4_000);
    const base = await memoryOf(server);
    for (let step = 1; step <= 5; step += 1) {
      await open(url, sessions, sockets, Math.round(count / 5));
      const memory = await memoryOf(server);
      const added = memory.streams - base.streams;
      const per = (bytes: number) => (bytes / added / 1024).toFixed(1);
      lines.push(
        `| ${memory.streams} | ${mib(memory.rss)} | ${mib(memory.heapUsed)} | ${per(memory.rss - base.rss)} | ${per(memory.heapUsed + memory.external - base.heapUsed - base.external)} |`,
      );
    }
    return `${lines.join('\n')}\n`;
  } finally {
    for (const socket of sockets) socket.destroy();
    server.kill('SIGKILL');
    await once(server, 'exit');
    rmSync(directory, { recursive: true, force: true });
  }
}

async function open(url: string, sessions: string[], sockets: Socket[], count: number): Promise<void> {
  for (let opened = 0; opened < count; opened += 100) {
    await Promise.all(
      Array.from({ length: Math.min(100, count - opened) }, async () => {
        if (sockets.length >= sessions.length * streamsPerSession) sessions.push(await createManagedSession(url));
        sockets.push(await openStream(url, sessions.at(-1) ?? '', () => {}));
      }),
    );
  }
}

async function memoryOf(server: ChildProcess): Promise<Memory> {
  server.send('measure');
  const [memory] = (await once(server, 'message')) as [Memory];
  return memory;
}

async function serve(): Promise<void> {
  const context = await createContext(loadConfig());
  const app = await createApp(context);
  await app.listen({ host: '127.0.0.1', port: 0 });
  const address = app.server.address();
  process.send?.(typeof address === 'object' ? address?.port : 0);
  process.on('message', async () => {
    for (let round = 0; round < 4; round += 1) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      globalThis.gc?.();
    }
    const { rss, heapUsed, external } = process.memoryUsage();
    process.send?.({ rss, heapUsed, external, streams: app.streams.size });
  });
}

function mib(bytes: number): number {
  return Math.round(bytes / 2 ** 20);
}
