import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../test/support/free-port.ts';
import { type Program, stop } from './processes.ts';

export const key = 'svc_live_benchmarkbenchmark';
export const operatorKey = 'svc_operator_benchmarkbenchmark';
export const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };

export interface Parley extends Program {
  /** Milliseconds from the start of the process to its first 200 at /readyz. */
  startMs: number;
}

/** A server under measurement, and the processes whose CPU time counts as its own. */
export interface Engine {
  name: string;
  parley: Parley;
  pids: number[];
}

/** Starts the server as `npm start` does, on PGlite or on the given PostgreSQL database. */
export async function startParley(databaseUrl: string | undefined, settings: Record<string, string> = {}): Promise<Parley> {
  const directory = mkdtempSync(join(tmpdir(), 'parley-bench-'));
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const begun = performance.now();
  const child = spawn(process.execPath, [join(import.meta.dirname, '../src/main.ts')], {
    cwd: directory,
    env: {
      PATH: process.env.PATH,
      NODE_COMPILE_CACHE: join(import.meta.dirname, '../node_modules/.cache/parley/compiled'),
      PORT: String(port),
      PARLEY_DATA_DIR: directory,
      PARLEY_API_KEY: key,
      PARLEY_OPERATOR_KEY: operatorKey,
      PARLEY_LOG_LEVEL: 'warn',
      PARLEY_RATE_LIMIT_RPS: '0',
      PARLEY_ALLOW_PRIVATE_UPSTREAMS: '1',
      ...(databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl }),
      ...settings,
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  while (
    !(await fetch(`${url}/readyz`).then(
      (response) => response.ok,
      () => false,
    ))
  ) {
    if (child.exitCode !== null) throw new Error('Parley ended before it was ready');
    await sleep(10);
  }
  return {
    url,
    pid: child.pid ?? 0,
    startMs: Math.round(performance.now() - begun),
    async stop() {
      await stop(child);
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** Makes the demo agent use the model server. */
export async function activateUpstream(parley: Parley, upstream: string): Promise<void> {
  await call(parley, '/api/agents/assistant/releases', {
    instructions: 'Answer.',
    model: { provider: 'openai-compatible', name: 'bench', base_url: upstream, settings: {} },
    activate: true,
  });
}

export async function createSessions(parley: Parley, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let index = 0; index < count; index += 1) {
    const { id } = await call<{ id: string }>(parley, '/v1/sessions', {});
    ids.push(id);
  }
  return ids;
}

/** Throws unless the status is 2xx. The caller names the answer's type, which is not checked. */
export async function call<Answer>({ url }: Pick<Parley, 'url'>, path: string, body: unknown, method = 'POST'): Promise<Answer> {
  const response = await fetch(url + path, { method, headers, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as Answer;
}
