import assert from 'node:assert/strict';
import { test } from 'node:test';
import { growingSum } from '../../../src/work/growing-sum.ts';

test('of a list that has grown only what is new is added up, and of another list everything', () => {
  const measured: string[] = [];
  const lengthOf = growingSum((text: string) => {
    measured.push(text);
    return text.length;
  });
  const list = ['one', 'two'];
  assert.deepEqual([lengthOf(list), lengthOf(list)], [6, 6]);
  list.push('three');
  assert.equal(lengthOf(list), 11);
  assert.deepEqual(measured, ['one', 'two', 'three']);
  assert.equal(lengthOf(list.slice(1)), 8);
});
