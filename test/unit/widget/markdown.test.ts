import assert from 'node:assert/strict';
import { test } from 'node:test';
import { markdown } from '../../../widget/src/markdown.ts';

/** What a template would put on the page. */
function shown(piece: unknown): string {
  if (Array.isArray(piece)) return piece.map(shown).join('');
  if (typeof piece !== 'object' || piece === null || !('strings' in piece) || !Array.isArray(piece.strings)) return String(piece);
  const values: unknown[] = 'values' in piece && Array.isArray(piece.values) ? piece.values : [];
  return piece.strings
    .map((text, index) => text + (index < values.length ? shown(values[index]) : ''))
    .join('')
    .replaceAll(' target="_blank" rel="noopener noreferrer"', '');
}

const cases: Record<string, [text: string, html: string]> = {
  'a list right after its introduction': ['Two:\n- a\n- b', '<p>Two:</p><ul dir="auto"><li>a</li><li>b</li></ul>'],
  'numbers go on after an empty line': ['1. a\n\n2. b', '<ol dir="auto" start=1><li>a</li></ol><ol dir="auto" start=2><li>b</li></ol>'],
  'a heading right before its text': ['## Title\nText', '<p><strong>Title</strong></p><p>Text</p>'],
  'lines of a paragraph stay together': ['one\ntwo\n\nthree', '<p>one\ntwo</p><p>three</p>'],
  'a table': [
    '| a | **b** |\n|---|:-:|\n| 1 | 2 |',
    '<table tabindex="0"><thead><tr><th>a</th><th><strong>b</strong></th></tr></thead>\n    <tbody><tr><td>1</td><td>2</td></tr></tbody></table>',
  ],
  'a line between bars is no table': ['|x|', '<p>|x|</p>'],
  'code and a link in bold, and code as the name of a link': [
    '**`a`** **[b](https://e.com)** [`c`](https://e.com) *d `e`*',
    '<p><strong><code>a</code></strong> <strong><a href=https://e.com>b</a></strong> <a href=https://e.com><code>c</code></a> <em>d <code>e</code></em></p>',
  ],
  'an address that is its own name, and one with brackets in it': [
    '[https://e.com](https://e.com) [f](https://e.com/f_(g)) (https://e.com/f_(g).)',
    '<p><a href=https://e.com>https://e.com</a> <a href=https://e.com/f_(g)>f</a> (<a href=https://e.com/f_(g)>https://e.com/f_(g)</a>.)</p>',
  ],
  'a code block in a list': [
    '1. a\n   ```sh\n   if b\n     c\n   ```\n2. d',
    '<ol dir="auto" start=1><li>a</li></ol><pre tabindex="0"><code>if b\n  c</code></pre><ol dir="auto" start=2><li>d</li></ol>',
  ],
  'a quote, and a line across': ['> a\n> - b\n\n---', '<blockquote><p>a</p><ul dir="auto"><li>b</li></ul></blockquote><hr />'],
  'nothing in a code block is marked up': ['```\n- a\n| b |\n```', '<pre tabindex="0"><code>- a\n| b |</code></pre>'],
};

for (const [name, [text, html]] of Object.entries(cases)) test(name, () => assert.equal(shown(markdown(text)), html));

test('a text of many opening brackets is shown within a moment', () => {
  const begun = performance.now();
  markdown('[a'.repeat(40_000));
  const took = performance.now() - begun;
  assert(took < 4_000, `${took} ms`);
});
