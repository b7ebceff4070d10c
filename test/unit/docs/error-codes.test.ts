// docs/errors.md and the sources name the same codes: one entry for each that a client can be sent, and none that it cannot.
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

const root = join(import.meta.dirname, '../../..');
const page = readFileSync(join(root, 'docs/errors.md'), 'utf8');
const byCode = page.slice(page.indexOf('## By code'));
const documented = [...byCode.matchAll(/^\| `([a-z_]+)`/gm)].map(([, code = '']) => code);

/** Where codes are made; a line that hands one on names none. */
const sources = globSync(
  ['src/errors.ts', 'src/{turn,harness,session,surfaces,instances,outbox,destination,load,accounts,gateway}/**/*.ts'],
  {
    cwd: root,
  },
).map((path) => ({
  path,
  text: readFileSync(join(root, path), 'utf8'),
}));

/** Not sent as errors: what the dashboard's test button answers, and errors of sockets and of OpenAPI's own words. */
const others = new Set(['timeout']);

const emitted = new Set(
  sources
    .flatMap(({ text }) => [
      ...text.matchAll(/\bcode: '([a-z_]+)'/g),
      ...text.matchAll(/\bModelError\('([a-z_]+)'/g),
      ...text.matchAll(/\bcode(?: =|:) [^;\n]*\? '([a-z_]+)' : '([a-z_]+)'/g),
      ...text.matchAll(/\breason === '(instance_[a-z_]+)'/g),
      ...(/type ModelErrorCode =[^;]*/.exec(text)?.[0].matchAll(/'([a-z_]+)'/g) ?? []),
      ...(/type ClosingReason =[^;]*/.exec(text)?.[0].matchAll(/'([a-z_]+)'/g) ?? []),
      ...(/const errorCodes: Record<number, string> = \{[^}]*/.exec(text)?.[0].matchAll(/'([a-z_]+)'/g) ?? []),
    ])
    .flatMap(([, ...codes]) => codes)
    .filter((code) => !others.has(code)),
);

test('every code that the sources can send has its entry', () => {
  assert.ok(emitted.size > 25, `only ${emitted.size} codes were found in the sources`);
  assert.deepEqual([...emitted].filter((code) => !documented.includes(code)).sort(), []);
});

test('every entry is a code that the sources can send, and has one entry', () => {
  assert.deepEqual(documented.filter((code) => !emitted.has(code)).sort(), []);
  assert.equal(new Set(documented).size, documented.length);
});
