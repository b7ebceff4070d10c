// The built client in Node, Deno and Bun, against a running server: the same program, the same results.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import { startApp } from '../support/app.ts';
import { startBreakingProxy } from '../support/breaking-proxy.ts';
import { packClient } from '../support/packed-client.ts';
import { findRuntime, type Runtime } from '../support/runtimes.ts';

const app = await startApp({ after });
const baseUrl = await app.listen();
const folder = packClient({ after });
cpSync(join(import.meta.dirname, 'tour.mjs'), join(folder, 'tour.mjs'));

/** Only what the client needs: it reads no file, no environment, and starts nothing. */
const commands: Record<Runtime, string[]> = { deno: ['run', '--no-prompt', '--allow-net=127.0.0.1'], bun: ['run'] };

test('the client in Node', () => tour(process.execPath, []));

for (const name of ['deno', 'bun'] as const)
  test(`the client in ${name}`, async (t) => {
    const runtime = findRuntime(name);
    if ('missing' in runtime) return t.skip(runtime.missing);
    await tour(runtime.program, commands[name]);
  });

async function tour(program: string, args: string[]): Promise<void> {
  const cut = new Set<string>();
  const proxy = await startBreakingProxy(baseUrl, ({ path }) => {
    const isStream = path.includes('/events/stream') || path.endsWith('/messages');
    if (!isStream || cut.has(path.replace(/\?.*/, ''))) return undefined;
    cut.add(path.replace(/\?.*/, ''));
    return { cutAfterBytes: 700 };
  });
  const secret = 'whsec_svc_0123456789';
  const payload = JSON.stringify({ id: 'evt', type: 'turn.completed' });
  const time = Math.floor(Date.now() / 1000);
  const header = `t=${time},v1=${createHmac('sha256', secret).update(`${time}.${payload}`).digest('hex')}`;
  const given = [baseUrl, proxy.origin, app.apiKey, secret, header, payload];
  const { stdout } = await promisify(execFile)(program, [...args, 'tour.mjs', ...given], { cwd: folder, timeout: 60_000 });
  proxy.close();
  assert.deepEqual(JSON.parse(stdout), {
    reply: 'Good morning',
    streamed: 'one two three',
    asked: 'bash',
    resolved: 'done',
    uploaded: { accepted: true, path: 'uploads/note.txt' },
    log: [
      '1 user.message',
      '2 session.status_running',
      '3 agent.tool_use',
      '4 agent.tool_result',
      '5 agent.message',
      '6 session.status_idle',
    ],
    resumed: 30,
    webhook: 'turn.completed',
    forged: true,
    missing: [true, 404, 'Not Found'],
    transcript: 8,
  });
  assert.equal(cut.size, 2, 'each stream was cut once');
}
