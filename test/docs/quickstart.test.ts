// The quickstart, followed to the letter: `npm start` on an empty data directory, then each command in its order.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { endWithUs } from '../support/end-with-us.ts';
import { shellBlocks, startReading } from '../support/run-docs.ts';

test('the quickstart works when it is followed literally', async (t) => {
  const [start, ...blocks] = shellBlocks('docs/quickstart.md');
  assert.equal(start, 'npm start\n');
  const printed = await npmStart(t);
  const url = /ready at (\S+)/.exec(printed)?.[1] ?? '';
  const key = /svc_live_[\w-]+/.exec(printed)?.[0] ?? '';
  const reader = startReading(url, { PARLEY_API_KEY: key, PARLEY_URL: url, ANTHROPIC_API_KEY: 'sk-ant-a-key-that-nobody-has' });
  const answers: string[] = [];
  for (const block of blocks) answers.push(await reader.run(block));
  const all = answers.join('\n');
  assert.match(all, /"object":"chat\.completion"/);
  assert.match(all, /event: done/);
  assert.match(all, /note\.txt/, 'the approved command ran');
  assert.match(answers.at(-1) ?? '', /2/, 'the second release is made');
});

/** Gives what it printed once it is ready. */
async function npmStart(t: { after(work: () => Promise<void>): void }): Promise<string> {
  const directory = mkdtempSync(join(tmpdir(), 'parley-quickstart-'));
  const root = join(import.meta.dirname, '../..');
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, PORT: '0', PARLEY_DATA_DIR: directory };
  const child = spawn('npm', ['start'], { cwd: root, env, stdio: ['ignore', 'pipe', 'inherit'] });
  const forget = endWithUs(() => child.kill('SIGKILL'));
  t.after(async () => {
    forget();
    const exited = once(child, 'exit');
    if (child.exitCode === null && child.kill('SIGINT')) await exited;
    rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
  });
  let printed = '';
  for await (const chunk of child.stdout.setEncoding('utf8')) {
    printed += chunk;
    if (printed.includes('A first conversation:')) break;
  }
  return printed;
}
