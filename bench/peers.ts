// `npm run bench -- --peers`: also measures a public gateway from npm. It is installed into a temporary folder and is not a dependency of
// this project.
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../test/support/free-port.ts';
import { type Program, stop } from './processes.ts';

export interface Peer extends Program {
  name: string;
  path: string;
  /** Headers that make it call the given model server. */
  headers(upstream: string): Record<string, string>;
  body(stream: boolean): string;
}

const gateway = { name: '@portkey-ai/gateway', version: '1.15.2' };
/** With later versions its streams fail: it changes headers that are immutable there. */
const overrides = { '@hono/node-server': '1.13.8' };

/** A gateway without state: it checks a request, forwards it and rewrites the answer, and stores nothing. */
export async function startPortkey(): Promise<Peer> {
  const folder = mkdtempSync(join(tmpdir(), 'parley-peers-'));
  writeFileSync(
    join(folder, 'package.json'),
    JSON.stringify({ private: true, dependencies: { [gateway.name]: gateway.version }, overrides }),
  );
  execFileSync('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error'], {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'inherit'],
    shell: process.platform === 'win32',
  });
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const script = join(folder, 'node_modules', gateway.name, 'build/start-server.js');
  const child = spawn(process.execPath, [script, '--headless', `--port=${port}`], {
    cwd: folder,
    env: { PATH: process.env.PATH, NODE_ENV: 'production' },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  while (!(await fetch(url).then(drain, () => false))) {
    if (child.exitCode !== null) throw new Error('the gateway ended before it was ready');
    await sleep(25);
  }
  return {
    name: `${gateway.name} ${gateway.version}`,
    url,
    path: '/v1/chat/completions',
    pid: child.pid ?? 0,
    headers: (upstream) => ({
      'content-type': 'application/json',
      authorization: 'Bearer none',
      'x-portkey-provider': 'openai',
      'x-portkey-custom-host': upstream,
    }),
    body: (stream) => JSON.stringify({ model: 'bench', messages: [{ role: 'user', content: 'Hello' }], stream }),
    async stop() {
      await stop(child);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function drain(response: Response): Promise<boolean> {
  await response.arrayBuffer();
  return true;
}
