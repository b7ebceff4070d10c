// The imports that never exist, and how long a file may get: what keeps `ls src` a true picture.
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { test } from 'node:test';

const root = join(import.meta.dirname, '..');
const files = globSync('src/**/*.ts', { cwd: root }).map((path) => path.slice('src/'.length));
const sources = new Map(files.map((file) => [file, readFileSync(join(root, 'src', file), 'utf8')]));
const imports = files.flatMap(importsOf);

interface Import {
  from: string;
  /** A path below src/, or the name of a package. */
  to: string;
  typeOnly: boolean;
  /** When it is needed, rather than at the start. */
  isLate: boolean;
}

const http = /^(fastify|@fastify\/.*|node:https?|node:http2)$/;
const folders = (...names: string[]) => new RegExp(`^(${names.join('|')})/`);

const rules: { name: string; from: RegExp; not: RegExp; except?: (found: Import) => boolean }[] = [
  {
    name: 'the harness knows no HTTP, no SQL, no organisation',
    from: /^harness\//,
    not: new RegExp(
      `${http.source}|^(kysely|pg)$|${folders('surfaces', 'turn', 'database', 'accounts', 'instances', 'outbox', 'destination').source}`,
    ),
  },
  {
    name: 'of the session the harness takes the types and the fold',
    from: /^harness\//,
    not: /^session\//,
    except: ({ to, typeOnly }) => typeOnly || /^session\/(events|state|usage)\.ts$/.test(to),
  },
  {
    name: 'the session knows nobody who uses it',
    from: /^session\//,
    not: new RegExp(`${http.source}|${folders('harness', 'turn', 'surfaces', 'accounts').source}`),
  },
  {
    name: 'what lies below a turn knows neither turns nor surfaces',
    from: folders('accounts', 'audit', 'outbox', 'destination', 'instances', 'load', 'database'),
    not: new RegExp(`${http.source}|${folders('surfaces', 'turn', 'harness').source}`),
    // The contracts of a tool and of a model are what these folders implement and check.
    except: ({ to, typeOnly }) => typeOnly && to.startsWith('harness/'),
  },
  { name: 'surfaces do not reach into the harness or write SQL', from: /^surfaces\//, not: /^(harness\/|kysely$|session\/log\.ts$)/ },
  {
    name: 'a surface knows of other surfaces only what is shared',
    from: /^surfaces\//,
    not: /^surfaces\/(?!shared\/)/,
    except: ({ from, to }) => from.split('/')[1] === to.split('/')[1],
  },
  { name: 'fastify and typebox stay at the surface', from: /^(?!surfaces\/|app\.ts$)/, not: /^(fastify|typebox|@fastify\/.*)$/ },
  {
    name: 'a start does not load what compiles schemas',
    from: /^(?!surfaces\/shared\/schemas\/compile-late\.ts$)/,
    not: /^(typebox|@fastify\/type-provider-typebox|@fastify\/fast-json-stringify-compiler)$/,
    except: ({ typeOnly }) => typeOnly,
  },
  {
    name: 'a command that asks a server does not wait for what a server is made of',
    from: /^cli\/(?!own-data\.ts$)/,
    not: new RegExp(`^(cli/own-data|main)\\.ts$|${folders('database', 'accounts', 'telemetry', 'turn', 'surfaces').source}`),
    except: ({ typeOnly, isLate }) => typeOnly || isLate,
  },
  { name: 'only the database opens an engine', from: /^(?!database\/)/, not: /^(pg|@electric-sql\/pglite)$/ },
  { name: 'only the destination guard sends requests to a URL of a customer', from: /^(?!destination\/)/, not: /^undici$/ },
];

for (const { name, from, not, except } of rules) {
  test(name, () => {
    const found = imports.filter((entry) => from.test(entry.from) && not.test(entry.to) && !except?.(entry));
    assert.deepEqual(
      found.map(({ from, to }) => `${from} imports ${to}`),
      [],
    );
  });
}

test('only config.ts reads the environment', () => {
  assert.deepEqual(
    files.filter((file) => file !== 'config.ts' && /process\.env\b/.test(sources.get(file) ?? '')),
    [],
  );
});

test('no surface builds a query', () => {
  const query = /\b(selectFrom|insertInto|updateTable|deleteFrom)\b/;
  assert.deepEqual(
    files.filter((file) => file.startsWith('surfaces/') && query.test(sources.get(file) ?? '')),
    [],
  );
});

test('nothing imports in a circle', () => {
  const targets = Map.groupBy(
    imports.filter(({ to }) => sources.has(to)),
    ({ from }) => from,
  );
  const finished = new Set<string>();
  const visit = (file: string, path: string[]): void => {
    assert.ok(!path.includes(file), [...path.slice(path.indexOf(file)), file].join(' -> '));
    if (finished.has(file)) return;
    for (const { to } of targets.get(file) ?? []) visit(to, [...path, file]);
    finished.add(file);
  };
  for (const file of files) visit(file, []);
});

test('no file is longer than 300 lines', () => {
  assert.deepEqual(
    files.filter((file) => (sources.get(file) ?? '').split('\n').length > 301),
    [],
  );
});

function importsOf(file: string): Import[] {
  const text = sources.get(file) ?? '';
  const statements = text.matchAll(/^(?:import|export)\s+(type\s)?[^'"`;]*?from\s+'([^']+)'|^import\s+'([^']+)'|\bimport\('([^']+)'\)/gm);
  return Array.from(statements, ([, type, named, bare, dynamic]) => {
    const target = named ?? bare ?? dynamic ?? '';
    const to = target.startsWith('.') ? posix.join(posix.dirname(file), target) : target;
    return {
      from: file,
      to: to.replace(/^(pg|kysely|fastify|typebox|undici|@electric-sql\/pglite)\/.*/, '$1'),
      typeOnly: type !== undefined,
      isLate: dynamic !== undefined,
    };
  });
}
