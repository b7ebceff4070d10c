import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { TextSplitter } from '../../../src/surfaces/responses/split-text.ts';

function split(pieces: string[]): string[] {
  const splitter = new TextSplitter();
  return [...pieces.flatMap((piece) => splitter.add(piece)), ...splitter.end()];
}

test('text is cut after words, after single characters of scripts without spaces, and at 64 characters', () => {
  assert.deepEqual(split(['one two\n\n  three']), ['one ', 'two\n', '\n  three']);
  assert.deepEqual(split(['日本 🙂x']), ['日', '本', ' 🙂', 'x']);
  assert.deepEqual(split(['x'.repeat(100)]), ['x'.repeat(64), 'x'.repeat(36)]);
});

test('where it is cut does not depend on how it arrived, and nothing is lost', () => {
  const part = fc.oneof(fc.string({ unit: 'grapheme' }), fc.constantFrom(' ', '\n', 'word ', '日本', '🙂', 'x'.repeat(70)));
  fc.assert(
    fc.property(fc.array(part), fc.array(fc.nat(12)), (parts, sizes) => {
      const text = parts.join('');
      const arrived: string[] = [];
      for (let start = 0, index = 0; start < text.length; index += 1) {
        const size = (sizes[index % Math.max(1, sizes.length)] ?? 3) + 1;
        arrived.push(text.slice(start, start + size));
        start += size;
      }
      const whole = split([text]);
      assert.deepEqual(split(arrived), whole);
      assert.equal(whole.join(''), text);
      assert.ok(whole.every((piece) => piece.isWellFormed()));
    }),
  );
});
