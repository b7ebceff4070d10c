import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
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
