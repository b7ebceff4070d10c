import type TypeBox from 'typebox';

type Schema = { [keyword: string]: unknown };

/** Schemas made by `Type.Optional`, which `Type.Object` leaves out of `required`. */
const optional = new WeakSet<object>();

const builders = {
  Object(properties: Record<string, Schema>, options?: Schema): Schema {
    const required = Object.keys(properties).filter((name) => !optional.has(properties[name] ?? {}));
    return { type: 'object', ...(required.length === 0 ? {} : { required }), properties, ...options };
  },
  Array: (items: Schema, options?: Schema): Schema => ({ type: 'array', items, ...options }),
  // TypeBox describes the keys with a pattern that matches no line break: a response would leave out a key that has one.
  Record: (_key: Schema, value: Schema, options?: Schema): Schema => ({ type: 'object', additionalProperties: value, ...options }),
  Union: (anyOf: Schema[], options?: Schema): Schema => ({ anyOf: [...anyOf], ...options }),
  Enum: (values: unknown[], options?: Schema): Schema => ({ enum: [...values], ...options }),
  Literal: (value: unknown, options?: Schema): Schema => ({ type: typeof value, const: value, ...options }),
  String: (options?: Schema): Schema => ({ type: 'string', ...options }),
  Integer: (options?: Schema): Schema => ({ type: 'integer', ...options }),
  Boolean: (options?: Schema): Schema => ({ type: 'boolean', ...options }),
  Null: (options?: Schema): Schema => ({ type: 'null', ...options }),
  Unknown: (options?: Schema): Schema => ({ ...options }),
  Unsafe: (schema: Schema): Schema => ({ ...schema }),
  Optional(schema: Schema): Schema {
    const copy = { ...schema };
    optional.add(copy);
    return copy;
  },
};

/**
 * The few builders of TypeBox that our schemas need, with its types. Except for `Record`, they make the same JSON Schema. TypeBox's own
 * builders load an engine for types at run time that is not used here: 480 modules, which took 14 MiB and a tenth of the start.
 */
export const Type = builders as unknown as Pick<typeof TypeBox, keyof typeof builders>;
