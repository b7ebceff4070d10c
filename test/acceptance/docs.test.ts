import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { startApp } from '../support/app.ts';

const folder = join(import.meta.dirname, '../../docs');
const pages = readdirSync(folder).filter((file) => file.endsWith('.md'));

test('every page of the documentation is served, and its links lead somewhere', async (t) => {
  const app = await startApp(t);
  for (const page of pages) {
    const answer = await app.request('GET', `/docs/${page.slice(0, -3)}`, undefined, { authorization: '' });
    assert.equal(answer.status, 200, page);
    assert.match(answer.text, /<main><h1/);
    for (const [, target] of readFileSync(join(folder, page), 'utf8').matchAll(/\]\(([a-z-]+\.md)(?:#[^)]*)?\)/g)) {
      assert.ok(pages.includes(target ?? ''), `${page} links to ${target}`);
    }
  }
  assert.equal((await app.request('GET', '/docs/images/widget-light.png')).headers['content-type'], 'image/png');
  assert.equal((await app.request('GET', '/docs/images/..%2Fwidget.md')).status, 404);
  assert.equal((await app.request('GET', '/docs/nothing-here')).text, '{"detail":"Not Found"}');
  assert.match((await app.request('GET', '/llms.txt')).text, /^# Parley/);
});

test('the quickstart works when it is followed literally', async (t) => {
  const app = await startApp(t);
  const url = await app.listen();
  const commands = [...readFileSync(join(folder, 'quickstart.md'), 'utf8').matchAll(/```sh\n([\s\S]*?)```/g)].map(
    (match) => match[1] ?? '',
  );
  let requestId = '';
  let ran = 0;
  for (const command of commands.filter((text) => text.startsWith('curl '))) {
    const { stdout } = await promisify(execFile)(
      'bash',
      ['-c', command.replaceAll('http://127.0.0.1:8080', url).replace('curl ', 'curl --fail --max-time 20 ')],
      {
        env: { PATH: process.env.PATH, PARLEY_API_KEY: app.apiKey, REQUEST_ID: requestId },
      },
    );
    assert.ok(stdout.length > 0, command);
    requestId = /req_[A-Z0-9]+/.exec(stdout)?.[0] ?? requestId;
    ran += 1;
  }
  assert.equal(ran, 6);
  assert.ok(requestId !== '');
});
