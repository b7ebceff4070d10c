// The examples of docs/client-libraries.md, and the line that the first start prints, run as they stand.
// One engine: what this tries is on the client's, the model's or a tool's side of the wire.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import { welcome } from '../../src/start/welcome.ts';
import { startApp } from '../support/app.ts';

const root = join(import.meta.dirname, '../..');
const app = await startApp({ after });
const url = await app.listen();
const run = promisify(execFile);
const options = { cwd: root, env: { ...process.env, PARLEY_API_KEY: app.apiKey }, timeout: 60_000 };

const text = readFileSync(join(root, 'docs/client-libraries.md'), 'utf8');
const examples = [...text.matchAll(/^## ([^\n]+)$|```(ts|bash)\n(.*?)```\s+```text\n(.*?)```/gms)];

let heading = '';
for (const [, title, language, code = '', printed = ''] of examples) {
  if (title !== undefined) {
    heading = title;
    continue;
  }
  test(`docs/client-libraries.md, ${heading}: an example prints what it says`, async () => {
    const here = code.replaceAll('http://127.0.0.1:8080', url);
    const { stdout } =
      language === 'bash'
        ? await run('bash', ['-c', here], options)
        : await run(process.execPath, ['--input-type=module-typescript', '--eval', here], options);
    assert.equal(stdout.trimEnd(), printed.trimEnd());
  });
}

test('each library has its example', () => {
  const blocks = examples.filter(([, title]) => title === undefined).map(([, , , code = '']) => code);
  for (const name of ['openai', '@ai-sdk/openai', '@ai-sdk/openai-compatible', '@openai/agents', '@langchain/openai'])
    assert.ok(
      blocks.some((code) => code.includes(`from '${name}'`)),
      name,
    );
});

test('the line that the first start prints works when pasted', async () => {
  const line = welcome(app.context, Number(new URL(url).port))
    .split('\n')
    .find((candidate) => candidate.startsWith('curl '));
  const { stdout } = await run('bash', ['-c', line ?? 'false'], options);
  assert.equal(JSON.parse(stdout).choices[0].message.content, 'You said: "Hello!". This is turn 1 of our conversation.');
});
