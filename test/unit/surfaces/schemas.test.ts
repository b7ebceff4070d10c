import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Type as TypeBox } from 'typebox';
import { convertQuery } from '../../../src/surfaces/shared/schemas/convert-query.ts';
import { Type } from '../../../src/surfaces/shared/schemas/type.ts';

test('schemas are built as TypeBox builds them, to the order of their keywords', () => {
  for (const build of [
    (type: typeof Type) => type.Object({ a: type.Optional(type.String({ maxLength: 3 })), b: type.Integer() }, { title: 'Pair' }),
    (type: typeof Type) => type.Object({ a: type.Optional(type.Unknown()) }, { additionalProperties: false }),
    (type: typeof Type) => type.Optional(type.Object({ nested: type.Object({ deep: type.Boolean({ default: false }) }) })),
    (type: typeof Type) =>
      type.Array(type.Union([type.Null(), type.String({ description: 'Words.' })], { title: 'Some' }), { maxItems: 3 }),
    (type: typeof Type) => type.Enum(['one', 'two'], { default: 'one' }),
    (type: typeof Type) => type.Union([type.Literal('text'), type.Literal(3), type.Literal(true, { description: 'Yes.' })]),
    (type: typeof Type) => type.Unsafe<number>(type.Integer({ minimum: 1 })),
  ])
    assert.equal(JSON.stringify(build(Type)), JSON.stringify(build(TypeBox)));
});

test('a query becomes numbers and truth values where its schema has them, an empty one is none, and what cannot become one is left as it came', () => {
  const schema = Type.Object({ page: Type.Integer(), active: Type.Boolean(), q: Type.String() });
  const cases: [given: object, expected: object][] = [
    [
      { page: '2', active: 'true', q: '7' },
      { page: 2, active: true, q: '7' },
    ],
    [
      { page: '-1.9', active: '0' },
      { page: -1, active: false },
    ],
    [
      { page: 'two', active: 'yes', q: 'true', other: '1' },
      { page: 'two', active: 'yes', q: 'true', other: '1' },
    ],
    [
      { page: ['1', '2'], active: 'FALSE', constructor: '1' },
      { page: ['1', '2'], active: false, constructor: '1' },
    ],
    [{ page: '1e400' }, { page: '1e400' }],
    [{ page: '', active: '', q: '' }, { q: '' }],
  ];
  for (const [given, expected] of cases) assert.deepEqual(convertQuery(schema, given), expected);
});
