// One engine: what this tries is on the client's, the model's or a tool's side of the wire.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { startApp } from '../support/app.ts';

const folder = join(import.meta.dirname, '../../docs');
const pages = readdirSync(folder).filter((file) => file.endsWith('.md'));

test('every page of the documentation is served, and its links lead somewhere', async (t) => {
  const app = await startApp(t);
  const visited = new Map<string, ReturnType<typeof app.request>>();
  const visit = (path: string) => {
    const known = visited.get(path) ?? app.request('GET', path, undefined, { authorization: '' });
    visited.set(path, known);
    return known;
  };
  for (const page of pages) {
    const answer = await visit(`/docs/${page.slice(0, -3)}`);
    assert.equal(answer.status, 200, page);
    assert.match(answer.text, /<main><h1 id=/);
    assert.doesNotMatch(answer.text, /<(table|pre)>/, 'what a phone scrolls sideways, a keyboard has to reach');
    for (const [, target = '', anchor] of answer.text.matchAll(/href="(\/[^"#]*)?(?:#([^"]*))?"/g)) {
      const there = target === '' ? answer : await visit(target);
      assert.ok(there.status < 400, `${page} links to ${target}, which is ${there.status}`);
      if (anchor !== undefined) assert.ok(there.text.includes(`id="${anchor}"`), `${page} links to ${target}#${anchor}`);
    }
    for (const [, target = ''] of readFileSync(join(folder, page), 'utf8').matchAll(/\]\(((?:\.\.\/|decisions|[a-z-]+\.md)[^)#]*)/g))
      assert.ok(existsSync(join(folder, target)), `${page} links to ${target}, which is not in the repository`);
  }
  for (const path of ['/docs', '/docs/']) assert.equal((await visit(path)).headers.location, '/docs/quickstart', path);
  assert.equal((await app.request('GET', '/docs/images/widget-light.png')).headers['content-type'], 'image/png');
  assert.equal((await app.request('GET', '/docs/images/..%2Fwidget.md')).status, 404);
  assert.equal((await app.request('GET', '/docs/nothing-here')).text, '{"detail":"Not Found"}');
  const lost = await app.request('GET', '/docs/nothing-here', undefined, { accept: 'text/html,*/*', authorization: '' });
  assert.deepEqual([lost.status, /<h1[^>]*>There is no page of this name/.test(lost.text)], [404, true]);
  const llms = (await app.request('GET', '/llms.txt')).text;
  assert.match(llms, /^# Parley/);
  for (const page of pages) if (page !== 'coverage.md') assert.ok(llms.includes(`(/docs/${page.slice(0, -3)})`), `llms.txt names ${page}`);
});
