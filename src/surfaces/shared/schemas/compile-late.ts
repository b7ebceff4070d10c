// A schema is compiled when its route is first used, and what compiles it is loaded then. All of them at the start took 1.3 s, twice as
// long as opening the database.
import { createRequire } from 'node:module';
import type { SerializerSelector } from '@fastify/fast-json-stringify-compiler';
import type { FastifySchema, FastifySchemaCompiler } from 'fastify';
import { convertQuery } from './convert-query.ts';

const load = createRequire(import.meta.url);

export const validateLate: FastifySchemaCompiler<FastifySchema> = ({ schema, httpPart }) => {
  let compiled: ReturnType<typeof import('typebox/schema').Compile> | undefined;
  return (value) => {
    compiled ??= compile(schema);
    const given = httpPart === 'querystring' ? convertQuery(schema, value) : value;
    if (compiled.Check(given)) return { value: given };
    const [, error] = compiled.Errors(given);
    return { error };
  };
};

function compile(schema: FastifySchema) {
  const typebox: typeof import('typebox/schema') = load('typebox/schema');
  return typebox.Compile(schema);
}

const serializeLate: ReturnType<typeof SerializerSelector> = (schemas, options) => {
  let compiler: ReturnType<ReturnType<typeof SerializerSelector>> | undefined;
  return (route) => {
    let serialize: ReturnType<NonNullable<typeof compiler>> | undefined;
    return (value) => {
      compiler ??= selectSerializer()(schemas, options);
      serialize ??= compiler(route);
      return serialize(value);
    };
  };
};

function selectSerializer(): ReturnType<typeof SerializerSelector> {
  const compilers: typeof import('@fastify/fast-json-stringify-compiler') = load('@fastify/fast-json-stringify-compiler');
  return compilers.SerializerSelector();
}

/** For `schemaController`. The builder of validators gives way to `setValidatorCompiler(validateLate)`; without one, Fastify loads Ajv. */
export const lateCompilers = { compilersFactory: { buildValidator: buildNone, buildSerializer: serializeLate } };

function buildNone(): never {
  throw new Error('setValidatorCompiler(validateLate) comes first');
}
