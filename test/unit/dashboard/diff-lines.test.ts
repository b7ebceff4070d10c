import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type DiffLine, diffLines } from '../../../dashboard/src/pages/agents/diff-lines.ts';

const marks = { same: ' ', added: '+', removed: '-' };

function shown(before: string, after: string): string[] {
  return diffLines(before, after).map(({ kind, text }) => marks[kind] + text);
}

test('what is the same stays in its place around what was added and removed', () => {
  assert.deepEqual(shown('a\nb\nc', 'a\nx\nc'), [' a', '-b', '+x', ' c']);
  assert.deepEqual(shown('a\nb', 'a\na\nb'), [' a', '+a', ' b']);
  assert.deepEqual(shown('a\na\nb', 'a\nb'), [' a', '-a', ' b']);
  assert.deepEqual(shown('a\nb\nc\nd', 'x\nb\ny\nd'), ['-a', '+x', ' b', '-c', '+y', ' d']);
  assert.deepEqual(shown('a', 'a'), [' a']);
  assert.deepEqual(shown('', 'a'), ['-', '+a']);
});

test('both texts can be read off their difference again', () => {
  const text = fc.array(fc.constantFrom('a', 'b', 'c', ''), { maxLength: 12 }).map((lines) => lines.join('\n'));
  const without = (lines: DiffLine[], left: DiffLine['kind']) =>
    lines.flatMap(({ kind, text }) => (kind === left ? [] : [text])).join('\n');
  fc.assert(
    fc.property(text, text, (before, after) => {
      const lines = diffLines(before, after);
      assert.equal(without(lines, 'added'), before);
      assert.equal(without(lines, 'removed'), after);
    }),
  );
});

test('a change of one line among thousands is found while somebody types', () => {
  const lines = Array.from({ length: 20_000 }, (_, index) => `line ${index % 7}`);
  const begun = performance.now();
  const found = diffLines(lines.join('\n'), lines.with(10_000, 'another').join('\n')).filter(({ kind }) => kind !== 'same');
  assert.equal(found.length, 2);
  assert.ok(performance.now() - begun < 1_000);
});
