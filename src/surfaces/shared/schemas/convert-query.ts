import { fieldOf } from '../../../text/json.ts';

/**
 * Query parameters are text. Where the schema has an integer or a boolean, text that stands for one is converted, and empty text,
 * which a form sends for an empty field, counts as absent. Anything else is left for the validation to refuse.
 */
export function convertQuery(schema: object, query: unknown): unknown {
  const properties = fieldOf(schema, 'properties');
  if (typeof query !== 'object' || query === null || typeof properties !== 'object' || properties === null) return query;
  for (const [name, value] of Object.entries(query)) {
    const type = fieldOf(fieldOf(properties, name), 'type');
    if (value === '' && (type === 'integer' || type === 'boolean')) Reflect.deleteProperty(query, name);
    else Reflect.set(query, name, convert(type, value));
  }
  return query;
}

function convert(type: unknown, value: unknown): unknown {
  if (typeof value !== 'string') return value;
  if (type === 'integer') return /^[+-]?\d+$/.test(value) ? nearest(Number(value)) : value;
  if (type === 'boolean') return truthValues.get(value.toLowerCase()) ?? value;
  return value;
}

/**
 * An integer that no number holds exactly becomes 2^53, or -2^53: a limit is clamped and a cursor is at the end either way. Where it
 * has to be exact, the schema has a maximum, and the validation refuses it.
 */
function nearest(integer: number): number {
  return Math.max(-(2 ** 53), Math.min(2 ** 53, integer));
}

const truthValues = new Map([
  ['true', true],
  ['1', true],
  ['false', false],
  ['0', false],
]);
