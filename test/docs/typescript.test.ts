// The TypeScript of the documentation compiles in a strict project and in a lax one, and the page of the client runs as it stands.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { startApp } from '../support/app.ts';

const root = join(import.meta.dirname, '../..');
const client = join(root, 'client/src/index.ts');
const run = promisify(execFile);

/** The programs of a page: a block that begins with an import starts one, the others continue it. */
function programs(page: string): string[] {
  const blocks = [...readFileSync(join(root, page), 'utf8').matchAll(/^```tsx?\n([\s\S]*?)^```/gm)].map(([, block = '']) => block);
  const found: string[] = [];
  for (const block of blocks) found.push(block.startsWith('import ') ? block : `${found.pop() ?? ''}${block}`);
  return found;
}

test('the TypeScript of the documentation compiles in a strict project, and in one without strict', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'parley-docs-'));
  t.after(() => rmSync(directory, { recursive: true }));
  symlinkSync(join(root, 'node_modules'), join(directory, 'node_modules'));
  const pages = ['docs/client.md', 'docs/client-libraries.md', 'docs/widget.md', 'client/README.md'];
  const files = pages.flatMap((page) =>
    programs(page).map((text, index) => ({ name: `${page.replaceAll('/', '-')}-${index + 1}.tsx`, text })),
  );
  assert.ok(files.length >= 12, `${files.length} programs`);
  for (const { name, text } of files) writeFileSync(join(directory, name), text);
  const compilerOptions = {
    target: 'es2022',
    module: 'nodenext',
    jsx: 'react-jsx',
    noEmit: true,
    skipLibCheck: true,
    allowImportingTsExtensions: true,
    types: ['node'],
    lib: ['es2024', 'dom', 'dom.iterable'],
    paths: { '@parley/client': [client] },
  };
  writeFileSync(join(directory, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.tsx'] }));
  writeFileSync(join(directory, 'package.json'), '{"type":"module"}');
  for (const strict of ['true', 'false']) {
    const { stdout } = await run(join(root, 'node_modules/.bin/tsc'), ['-p', directory, '--strict', strict]).catch((error) => error);
    assert.equal(stdout, '', `strict: ${strict}`);
  }
});

test('the page of the client runs as it stands', async (t) => {
  const app = await startApp(t);
  const url = await app.listen();
  const [program = ''] = programs('docs/client.md');
  const here = program.replace('http://127.0.0.1:8080', url).replaceAll('@parley/client', pathToFileURL(client).href);
  const env = { PATH: process.env.PATH, PARLEY_API_KEY: app.apiKey };
  const { stdout } = await run(process.execPath, ['--input-type=module-typescript', '--eval', here], { env, timeout: 60_000 });
  assert.match(stdout, /^You said: "How many boats do we have\?"\. This is turn 1 of our conversation\.$/m);
  assert.match(stdout, /'done'/, 'the approved call ended');
  assert.match(stdout, /^You said: "And in green\?"\. This is turn 4 of our conversation\.$/m);
  const { body } = await app.request('GET', '/api/agents/orders');
  assert.equal(body.agent.active_version, 1);
});
