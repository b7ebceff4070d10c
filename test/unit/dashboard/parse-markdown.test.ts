import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseMarkdown } from '../../../dashboard/src/parts/parse-markdown.ts';

test('Markdown becomes HTML; HTML in it stays text, and an image its alternative text', () => {
  assert.equal(
    parseMarkdown('- **a** [b](https://c.example)'),
    '<ul>\n<li><strong>a</strong> <a href="https://c.example">b</a></li>\n</ul>\n',
  );
  assert.equal(parseMarkdown('a <b onclick="x">&'), '<p>a &lt;b onclick=&quot;x&quot;&gt;&amp;</p>\n');
  assert.equal(parseMarkdown('![a <b>](https://c.example/d.png)'), '<p>a &lt;b&gt;</p>\n');
  assert.equal(parseMarkdown(`${'<'.repeat(5_000)}`), `<p>${'&lt;'.repeat(5_000)}</p>\n`, 'also beyond the limits');
});

for (const [what, text] of [
  ['many stars', `${'*'.repeat(40_000)}a`],
  ['much emphasis', '_a_'.repeat(20_000)],
  ['much emphasis in many paragraphs', `${'_a_'.repeat(1_300)}\n\n`.repeat(40)],
  ['many spaces', `a${' '.repeat(80_000)}b`],
  ['what could become an address', `${'a.'.repeat(40_000)}@`],
  ['quotes in quotes', '>'.repeat(50_000)],
  ['lists in lists', Array.from({ length: 400 }, (_, depth) => `${' '.repeat(depth * 2)}- a`).join('\n')],
] as const)
  test(`a message of ${what} is shown within a moment`, () => {
    const begun = performance.now();
    assert.match(parseMarkdown(text), /^<(p|blockquote|ul)>/);
    const took = performance.now() - begun;
    assert(took < 2_000, `${took} ms`);
  });
