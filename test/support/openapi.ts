// Reads the OpenAPI document: every operation, with an example of a body that it accepts.
import assert from 'node:assert/strict';
import type { TestApp } from './app.ts';

export interface Schema {
  $ref?: string;
  type?: string;
  const?: unknown;
  enum?: unknown[];
  anyOf?: Schema[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  pattern?: string;
  examples?: unknown[];
}

export interface Operation {
  name: string;
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  path: string;
  tags: string[];
  scopes: string[];
  isPublic: boolean;
  takesToken: boolean;
  query: { name: string; schema: Schema }[];
  body: { schema: Schema; example: unknown } | undefined;
  statuses: number[];
}

export interface OpenApi {
  operations: Operation[];
  resolve(schema: Schema): Schema;
  /** The smallest value that the schema accepts. */
  sample(schema: Schema): unknown;
}

export async function readOpenApi(parley: TestApp): Promise<OpenApi> {
  const { status, body: document } = await parley.call('GET', '/openapi.json');
  assert.equal(status, 200);
  const resolve = (schema: Schema): Schema =>
    schema.$ref === undefined ? schema : document.components.schemas[schema.$ref.replace('#/components/schemas/', '')];
  const operations: Operation[] = [];
  for (const [path, methods] of Object.entries<Record<string, RawOperation>>(document.paths)) {
    for (const [method, operation] of Object.entries(methods)) operations.push(operationFrom(method, path, operation, resolve));
  }
  return { operations, resolve, sample: (schema) => sample(schema, resolve) };
}

interface RawOperation {
  tags?: string[];
  security?: Record<string, unknown>[];
  'x-scopes'?: string[];
  parameters?: { in: string; name: string; schema: Schema }[];
  requestBody?: { content: Record<string, { schema: Schema; example?: unknown }> };
  responses: Record<string, unknown>;
}

function operationFrom(method: string, path: string, raw: RawOperation, resolve: (schema: Schema) => Schema): Operation {
  const content = raw.requestBody?.content['application/json'];
  const upper = method.toUpperCase();
  assert.ok(upper === 'GET' || upper === 'POST' || upper === 'PUT' || upper === 'PATCH' || upper === 'DELETE', `${upper} ${path}`);
  return {
    name: `${upper} ${path}`,
    method: upper,
    path,
    tags: raw.tags ?? [],
    scopes: raw['x-scopes'] ?? [],
    isPublic: raw.security?.length === 0,
    takesToken: raw.security?.some((scheme) => 'sessionToken' in scheme) ?? false,
    query: (raw.parameters ?? []).filter((parameter) => parameter.in === 'query'),
    body: content && { schema: content.schema, example: content.example ?? exampleOf(content.schema, resolve) },
    statuses: Object.keys(raw.responses).map(Number),
  };
}

/** The example in the schema or in one of its alternatives; without one, a sample. */
function exampleOf(schema: Schema, resolve: (schema: Schema) => Schema): unknown {
  const own = resolve(schema);
  const [example] = own.examples ?? (own.anyOf ?? []).flatMap((alternative) => resolve(alternative).examples ?? []);
  return example ?? sample(schema, resolve);
}

function sample(schema: Schema, resolve: (schema: Schema) => Schema): unknown {
  const own = resolve(schema);
  if (own.const !== undefined) return own.const;
  if (own.enum !== undefined) return own.enum[0];
  if (own.anyOf?.[0] !== undefined) return sample(own.anyOf[0], resolve);
  if (own.type === 'object') {
    const required = own.required ?? [];
    return Object.fromEntries(required.map((name) => [name, sample(own.properties?.[name] ?? {}, resolve)]));
  }
  if (own.type === 'array') return [];
  if (own.type === 'integer' || own.type === 'number') return own.minimum ?? 1;
  if (own.type === 'boolean') return false;
  return 'x'.repeat(Math.max(1, own.minLength ?? 1));
}
