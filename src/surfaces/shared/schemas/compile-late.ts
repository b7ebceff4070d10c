// A schema is compiled when its route is first used, and the compiler is loaded then. Compiling all at the start took 1.3 s, twice as
// long as opening the database.
import { createRequire } from 'node:module';
import type { SerializerSelector } from '@fastify/fast-json-stringify-compiler';
import type { FastifySchema, FastifySchemaCompiler, FastifySchemaValidationError } from 'fastify';
import { fieldOf } from '../../../text/json.ts';
import { convertQuery } from './convert-query.ts';

const load = createRequire(import.meta.url);

type Validator = ReturnType<typeof import('typebox/schema').Compile>;
type SerializerCompiler = ReturnType<ReturnType<typeof SerializerSelector>>;

interface Compiled {
  validator: Validator;
  names: ReadonlySet<string>;
}

/** By schema, because several routes may have the same one. */
const validators = new WeakMap<object, Compiled>();
const serializers = new WeakMap<object, ReturnType<SerializerCompiler>>();

export const validateLate: FastifySchemaCompiler<FastifySchema> = ({ schema, httpPart }) => {
  let compiled: Compiled | undefined;
  return (value) => {
    compiled ??= compile(schema);
    const given = httpPart === 'querystring' ? convertQuery(schema, value) : value;
    if (compiled.validator.Check(given)) return { value: given };
    return { error: errorsOf(compiled, given) };
  };
};

/**
 * Whether a value is valid is known within milliseconds. But listing its errors takes a few microseconds for every entry of every list
 * and every field, even after the first error: half a million entries blocked the process for a second. So the first are tried alone.
 */
function errorsOf({ validator, names }: Compiled, given: unknown): FastifySchemaValidationError[] {
  for (const entries of [100, 10_000]) {
    const beginning = beginningOf(given, entries, names);
    if (!validator.Check(beginning)) return validator.Errors(beginning)[1];
  }
  return [{ keyword: 'items', schemaPath: '', instancePath: '', params: {}, message: 'an entry of a very long list is not valid' }];
}

/**
 * A copy with this many list entries and unnamed fields in total. At least one entry in each list and every field that the schema names,
 * since without them a list may be too short, or a field missing.
 */
function beginningOf(value: unknown, entries: number, names: ReadonlySet<string>): unknown {
  let left = entries;
  const copy = (part: unknown): unknown => {
    if (typeof part !== 'object' || part === null) return part;
    if (!Array.isArray(part)) {
      const kept = Object.keys(part).filter((name) => names.has(name) || left-- > 0);
      return Object.fromEntries(kept.map((name) => [name, copy(Reflect.get(part, name))]));
    }
    const copied: unknown[] = [];
    for (const entry of part) {
      if (left <= 0 && copied.length > 0) break;
      left -= 1;
      copied.push(copy(entry));
    }
    return copied;
  };
  return copy(value);
}

function compile(schema: FastifySchema): Compiled {
  const known = validators.get(schema);
  if (known !== undefined) return known;
  const typebox: typeof import('typebox/schema') = load('typebox/schema');
  const compiled = { validator: typebox.Compile(schema), names: namesIn(schema) };
  validators.set(schema, compiled);
  return compiled;
}

/** The fields that a schema names, at whatever depth. */
function namesIn(schema: unknown, names = new Set<string>()): Set<string> {
  if (typeof schema !== 'object' || schema === null) return names;
  for (const name of Object.keys(fieldOf(schema, 'properties') ?? {})) names.add(name);
  for (const part of Object.values(schema)) namesIn(part, names);
  return names;
}

const serializeLate: ReturnType<typeof SerializerSelector> = (schemas, options) => {
  let compiler: SerializerCompiler | undefined;
  return (route) => {
    const schema: object = Object(route.schema);
    return (value) => {
      let serialize = serializers.get(schema);
      if (serialize === undefined) {
        compiler ??= selectSerializer()(schemas, options);
        serialize = compiler(route);
        serializers.set(schema, serialize);
      }
      return serialize(value);
    };
  };
};

function selectSerializer(): ReturnType<typeof SerializerSelector> {
  const compilers: typeof import('@fastify/fast-json-stringify-compiler') = load('@fastify/fast-json-stringify-compiler');
  return compilers.SerializerSelector();
}

/** For `schemaController`. Validators come from `setValidatorCompiler(validateLate)`, but without a builder here Fastify would load Ajv. */
export const lateCompilers = { compilersFactory: { buildValidator: buildNone, buildSerializer: serializeLate } };

function buildNone(): never {
  throw new Error('setValidatorCompiler(validateLate) comes first');
}
