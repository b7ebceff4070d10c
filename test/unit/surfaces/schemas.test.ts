import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Type as TypeBox } from 'typebox';
import { validateLate } from '../../../src/surfaces/shared/schemas/compile-late.ts';
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
      { page: '-1', active: '0' },
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
    ...['1e400', '1e3', '1.5', '2.0', '0x10', ' 1', 'Infinity', '-', '1n'].map((page): [object, object] => [{ page }, { page }]),
    [{ page: '+007' }, { page: 7 }],
    [{ page: '9007199254740991' }, { page: 9007199254740991 }],
    [{ page: '9007199254740993' }, { page: 2 ** 53 }],
    [{ page: `-${'9'.repeat(400)}` }, { page: -(2 ** 53) }],
    [{ page: '', active: '', q: '' }, { q: '' }],
  ];
  for (const [given, expected] of cases) assert.deepEqual(convertQuery(schema, given), expected);
});

test('what is wrong is looked for among the first ten thousand entries of lists: where more are, saying it takes a second', () => {
  const schema: object = {
    type: 'object',
    properties: { lists: { type: 'array', items: { type: 'array', minItems: 1, items: { type: 'integer' } } } },
  };
  const validate = validateLate({ schema, method: 'POST', url: '/', httpPart: 'body' });
  const whereWrong = (list: number, at: number) => {
    const lists: unknown[][] = Array.from({ length: 10 }, () => Array(2_000).fill(1));
    lists[list]?.splice(at, 1, 'one');
    const { error } = validate({ lists }) as { error: { instancePath: string; message: string }[] };
    return error.map(({ instancePath, message }) => `${instancePath} ${message}`);
  };
  assert.deepEqual(whereWrong(0, 50), ['/lists/0/50 must be integer']);
  assert.deepEqual(whereWrong(4, 1_900), ['/lists/4/1900 must be integer']);
  assert.deepEqual(whereWrong(5, 1_900), [' an entry of a very long list is not valid']);
});

test('of fields that a schema does not name, what is wrong is looked for among the first few; none that it names seems to be missing', () => {
  const text = Type.Object({ text: Type.String() }, { additionalProperties: false });
  const schema: object = Type.Object({ metadata: Type.Record(Type.String(), Type.Unknown()), inner: text, page: Type.Integer() });
  const validate = validateLate({ schema, method: 'POST', url: '/', httpPart: 'body' });
  let read = 0;
  const counted: ProxyHandler<object> = {
    get(target, name) {
      read += 1;
      return Reflect.get(target, name);
    },
  };
  const many = Object.fromEntries(Array.from({ length: 20_000 }, (_, index) => [`key${index}`, 0]));
  const whereWrong = (given: { metadata: object; inner: object; page: unknown }) => {
    read = 0;
    const { error } = validate({ ...given, metadata: new Proxy(given.metadata, counted), inner: new Proxy(given.inner, counted) }) as {
      error: { instancePath: string }[];
    };
    return error[0]?.instancePath;
  };
  assert.equal(whereWrong({ metadata: { ...many, text: 'a' }, inner: { text: 'a' }, page: 'one' }), '/page');
  assert.ok(read < 200, `${read} fields were read`);
  assert.equal(whereWrong({ metadata: {}, inner: { ...many, text: 'a' }, page: 1 }), '/inner/key0');
  assert.ok(read < 200, `${read} fields were read`);
});
