import type { preValidationAsyncHookHandler } from 'fastify';
import { fieldOf } from '../../../text/json.ts';

/**
 * The serializers of several languages write null for a field that was not set. So in a body of this schema a null says the same as
 * leaving an optional field out; in a required one it is as wrong as before.
 */
export function nullIsAbsent(schema: object): preValidationAsyncHookHandler {
  return async ({ body }) => dropNulls(body, schema);
}

function dropNulls(value: unknown, schema: unknown): void {
  if (typeof value !== 'object' || value === null) return;
  const required = fieldOf(schema, 'required');
  for (const [name, field] of Object.entries(fieldOf(schema, 'properties') ?? {})) {
    if (Array.isArray(required) && required.includes(name)) dropNulls(fieldOf(value, name), field);
    else if (fieldOf(value, name) === null) Reflect.deleteProperty(value, name);
  }
}
