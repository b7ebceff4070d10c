// One engine: what this tries is on the client's, the model's or a tool's side of the wire.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import fc, { type Arbitrary } from 'fast-check';
import { type Answer, startApp } from '../support/app.ts';
import { type FurnishedOrganization, furnishOrganization, pathOf } from '../support/furnished-organization.ts';
import { type Operation, readOpenApi, type Schema } from '../support/openapi.ts';

// Requests made from the published document, half right and half wrong: none may end in a 500 or hang.
const parley = await startApp(
  { after },
  { settings: { PARLEY_RATE_LIMIT_RPS: '0', PARLEY_WEBHOOK_ALLOW_PRIVATE: '1', PARLEY_GATEWAY: '1', PARLEY_LOG_LEVEL: 'error' } },
);
const { operations, resolve } = await readOpenApi(parley);
const runs = Number(process.env.FUZZ_RUNS ?? 20);
const seed = Number(process.env.FUZZ_SEED ?? 20_260_101);

const nasty = fc.constantFrom(
  '',
  ' ',
  '\u0000',
  '\ud800',
  '\u202e',
  "'; drop table agents; --",
  '%s%n',
  '../../etc/passwd',
  '__proto__',
  'constructor',
  'null',
  '9'.repeat(40),
  'x'.repeat(3_000),
  '😀'.repeat(50),
  '0001-01-01T00:00:00+14:00',
  '9999-12-31T23:59:59-14:00',
);
const text = fc.oneof(fc.string({ unit: 'binary', maxLength: 40 }), fc.string({ maxLength: 20 }), nasty);
const number = fc.oneof(fc.integer(), fc.double(), fc.constantFrom(0, -1, 2 ** 31, 2 ** 53, -(2 ** 63), 1e308));
const junk: Arbitrary<unknown> = fc.oneof(text, number, fc.boolean(), fc.constant(null), fc.jsonValue({ maxDepth: 4 }));

/** Mostly what the schema asks for, sometimes anything. */
function valueFor(given: Schema): Arbitrary<unknown> {
  const schema = resolve(given);
  return fc.oneof({ weight: 6, arbitrary: fitting(schema) }, { weight: 1, arbitrary: junk });
}

function fitting(schema: Schema): Arbitrary<unknown> {
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
  if (schema.anyOf !== undefined) return fc.oneof(...schema.anyOf.map(valueFor));
  if (schema.type === 'array') return fc.array(valueFor(schema.items ?? {}), { maxLength: 4 });
  if (schema.type === 'integer')
    return fc.oneof(fc.integer({ min: schema.minimum ?? -5, max: Math.min(schema.maximum ?? 1_000, 2 ** 31 - 1) }), number);
  if (schema.type === 'boolean') return fc.boolean();
  if (schema.type !== 'object') return text;
  const properties = Object.entries(schema.properties ?? {}).map(([name, property]) => [name, valueFor(property)]);
  const known: Arbitrary<object> = fc.record(Object.fromEntries(properties), { requiredKeys: [] });
  return fc
    .tuple(known, fc.option(fc.dictionary(text, junk, { maxKeys: 2 }), { freq: 6 }))
    .map(([object, extra]) => ({ ...object, ...extra }));
}

function requestFor(
  operation: Operation,
  tenant: FurnishedOrganization,
): Arbitrary<{ path: string; body: string | undefined; headers: Record<string, string> }> {
  const segment = text.map((value) => encodeURIComponent(value.toWellFormed()) || 'x');
  const path = fc.oneof(
    { weight: 4, arbitrary: fc.constant(pathOf(operation, tenant)) },
    { weight: 1, arbitrary: segment.map((value) => operation.path.replace(/\{\w+\}/g, value)) },
    { weight: 1, arbitrary: segment.map((value) => pathOf(operation, tenant).replace(/[^/]+$/, value)) },
  );
  const pair = (name: string, schema: Schema) =>
    // An object may have a `toString` of its own, which is not one.
    valueFor(schema)
      .map((value) => (typeof value === 'object' ? JSON.stringify(value) : String(value)))
      .map((value) => `${name}=${encodeURIComponent(value.toWellFormed())}`);
  const pairs = operation.query.map(({ name, schema }) => fc.option(pair(name, schema)));
  const query = fc.oneof(
    { weight: 5, arbitrary: fc.tuple(...pairs).map((found) => found.filter((entry) => entry !== null).join('&')) },
    { weight: 1, arbitrary: fc.constantFrom('limit=1&limit=2', 'cursor[]=1', '%', 'a=%ff', '&&=', 'limit=%00', 'cursor=W10') },
  );
  const body =
    operation.body === undefined
      ? fc.constant(undefined)
      : fc.oneof(
          { weight: 8, arbitrary: valueFor(operation.body.schema).map((value) => JSON.stringify(value) ?? 'null') },
          { weight: 1, arbitrary: fc.string({ maxLength: 30 }) },
        );
  const headers = fc.oneof(
    { weight: 6, arbitrary: fc.constant({}) },
    { weight: 1, arbitrary: fc.string({ unit: 'grapheme-ascii', maxLength: 300 }).map((key) => ({ 'idempotency-key': key.trim() })) },
    { weight: 1, arbitrary: fc.constantFrom({ 'content-type': 'text/plain' }, { 'content-type': 'application/json; charset=latin1' }) },
  );
  return fc.record({ path: fc.tuple(path, query).map(([where, which]) => (which === '' ? where : `${where}?${which}`)), body, headers });
}

const shared = await furnishOrganization(parley, 'shared');
const url = await parley.listen();

/** A stream that begins has answered: it goes on for as long as somebody reads. */
async function open(path: string, { key, headers }: { key: string; headers: Record<string, string> }): Promise<Omit<Answer, 'headers'>> {
  const response = await fetch(url + path, { headers: { ...headers, authorization: `Bearer ${key}` } });
  const text = response.ok ? '' : await response.text();
  if (response.ok) await response.body?.cancel();
  return { status: response.status, text, body: text === '' ? undefined : JSON.parse(text) };
}

for (const [index, operation] of operations.entries()) {
  test(`${operation.name} answers whatever it is sent`, async () => {
    // What changes or deletes would leave others with less to find.
    const tenant = /GET|POST/.test(operation.method) ? shared : await furnishOrganization(parley, `fuzz-${index}`);
    await fc.assert(
      fc.asyncProperty(requestFor(operation, tenant), async ({ path, body, headers }) => {
        const call = { key: tenant.key, ...(body === undefined ? {} : { body }), headers };
        const answer = await (operation.path.endsWith('/stream') ? open(path, call) : parley.call(operation.method, path, call));
        const isDocumented = operation.isPublic || operation.statuses.includes(answer.status);
        assert.ok(isDocumented, `${answer.status} is not in the document: ${answer.text}`);
        assert.ok(answer.status < 500 || answer.status === 502, `${answer.status} ${answer.text}`);
        if (answer.status >= 400)
          assert.ok(answer.body !== undefined && JSON.stringify(answer.body).length > 2, `${answer.status} says nothing`);
      }),
      { numRuns: runs, seed: seed + index, interruptAfterTimeLimit: 60_000 },
    );
  });
}
