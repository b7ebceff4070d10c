// A schema is compiled when its route is first used. All of them at the start took 1.3 s, twice as long as opening the database.
import { SerializerSelector } from '@fastify/fast-json-stringify-compiler';
import { TypeBoxValidatorCompiler } from '@fastify/type-provider-typebox';

const compileSerializer = SerializerSelector();

export const validateLate: typeof TypeBoxValidatorCompiler = (route) => {
  let validate: ReturnType<typeof TypeBoxValidatorCompiler> | undefined;
  return (value) => {
    validate ??= TypeBoxValidatorCompiler(route);
    return validate(value);
  };
};

export const serializeLate: typeof compileSerializer = (schemas, options) => {
  const compile = compileSerializer(schemas, options);
  return (route) => {
    let serialize: ReturnType<typeof compile> | undefined;
    return (value) => {
      serialize ??= compile(route);
      return serialize(value);
    };
  };
};
