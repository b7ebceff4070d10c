// A server of two worker processes on a PostgreSQL of its own, and what can happen to them.
import { readFileSync } from 'node:fs';
import type { TestContext } from 'node:test';
import { apiKey } from './app.ts';
import { startDatabaseProxy } from './database-proxy.ts';
import { createDatabase } from './engine.ts';
import { freePort } from './free-port.ts';
import { spawnServer } from './server-process.ts';
import { until } from './until.ts';
import { connect } from './wire.ts';

export async function startWorkers(t: TestContext) {
  const database = await createDatabase();
  t.after(database.remove);
  const proxy = await startDatabaseProxy(t, database);
  const port = await freePort();
  let printed = '';
  const settings = { ...proxy.database.settings, PORT: String(port), PARLEY_LOG_LEVEL: 'info' };
  const print = (text: string) => {
    printed += text;
  };
  const primary = spawnServer(settings, print, ['--workers', '2']);
  t.after(() => void primary.kill('SIGKILL'));
  // The first says so to whoever started it, the others in their log.
  const started = (count: number) => until(async () => (printed.match(/^Parley is ready|"msg":"ready"/gm)?.length ?? 0) >= count, 30_000);
  await started(2);
  const url = `http://127.0.0.1:${port}`;
  const workers = () => readFileSync(`/proc/${primary.pid}/task/${primary.pid}/children`, 'utf8').trim().split(' ').map(Number);
  return {
    database,
    proxy,
    url,
    client: connect(url, apiKey),
    primary,
    printed: () => printed,
    workers,
    /** Resolves when the process is gone. */
    kill: (worker: number) => {
      process.kill(worker, 'SIGKILL');
      return until(async () => !workers().includes(worker));
    },
    started,
  };
}

/** Resolves when the process has come to a halt. */
export function halt(worker: number): Promise<void> {
  process.kill(worker, 'SIGSTOP');
  return until(async () => readFileSync(`/proc/${worker}/stat`, 'utf8').includes(') T '));
}
