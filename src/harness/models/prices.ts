import type { Usage } from '../../session/usage.ts';
import { isRecord, parseJson } from '../../text/json.ts';

/** Micro-dollars for one token, which is the same number as dollars for a million tokens. */
export interface Price {
  input: number;
  /** For input that the provider had in its prompt cache. */
  cachedInput: number;
  output: number;
}

/** The operator's own prices, by `provider/beginning of the model's name`, or by `provider` for all its other models. */
export type PriceOverrides = ReadonlyMap<string, Price>;

/**
 * List prices as far as they were known when this was written; they change, and do not include discounts and long-context rates.
 * Within a provider the longest prefix that matches counts; the empty one is for every other model.
 */
const table: Record<string, [prefix: string, input: number, cachedInput: number, output: number][]> = {
  offline: [['', 1, 1, 1]],
  anthropic: [
    ['claude-opus-4-0', 15, 1.5, 75],
    ['claude-opus-4-1', 15, 1.5, 75],
    ['claude-opus-4-2025', 15, 1.5, 75],
    ['claude-opus-', 5, 0.5, 25],
    ['claude-sonnet-', 3, 0.3, 15],
    ['claude-haiku-', 1, 0.1, 5],
    ['claude-3-haiku', 0.25, 0.03, 1.25],
    ['claude-3-5-haiku', 0.8, 0.08, 4],
    ['claude-3-opus', 15, 1.5, 75],
    ['claude-3-', 3, 0.3, 15],
    ['', 5, 0.5, 25],
  ],
  openai: [
    ['gpt-3.5-turbo', 0.5, 0.5, 1.5],
    ['gpt-4-32k', 60, 60, 120],
    ['gpt-4-turbo', 10, 10, 30],
    ['gpt-4-0125-preview', 10, 10, 30],
    ['gpt-4-1106-', 10, 10, 30],
    ['gpt-4.5', 75, 37.5, 150],
    ['gpt-4', 30, 30, 60],
    ['gpt-4o-2024-05-13', 5, 5, 15],
    ['gpt-4o-mini', 0.15, 0.075, 0.6],
    ['gpt-4o', 2.5, 1.25, 10],
    ['gpt-4.1-nano', 0.1, 0.025, 0.4],
    ['gpt-4.1-mini', 0.4, 0.1, 1.6],
    ['gpt-4.1', 2, 0.5, 8],
    ['gpt-5-nano', 0.05, 0.005, 0.4],
    ['gpt-5-mini', 0.25, 0.025, 2],
    ['gpt-5-pro', 15, 15, 120],
    ['gpt-5.1', 1.25, 0.125, 10],
    ['gpt-5.2-pro', 21, 21, 168],
    ['gpt-5.2', 1.75, 0.175, 14],
    ['gpt-5.', 2.5, 0.25, 15],
    ['gpt-5', 1.25, 0.125, 10],
    ['o1-pro', 150, 150, 600],
    ['o1-mini', 1.1, 0.55, 4.4],
    ['o1', 15, 7.5, 60],
    ['o3-mini', 1.1, 0.55, 4.4],
    ['o3-pro', 20, 20, 80],
    ['o3-deep-research', 10, 2.5, 40],
    ['o3', 2, 0.5, 8],
    ['o4-mini-deep-research', 2, 0.5, 8],
    ['o4-mini', 1.1, 0.275, 4.4],
    ['', 2.5, 0.25, 15],
  ],
  google: [
    ['gemini-2.0-flash-lite', 0.075, 0.075, 0.3],
    ['gemini-2.0-flash', 0.1, 0.025, 0.4],
    ['gemini-2.5-flash-lite', 0.1, 0.01, 0.4],
    ['gemini-2.5-flash', 0.3, 0.03, 2.5],
    ['gemini-2.5-pro', 1.25, 0.125, 10],
    ['gemini-3-flash', 0.5, 0.05, 3],
    ['gemini-3-pro', 2, 0.2, 12],
    ['', 2, 0.2, 12],
  ],
  // Anything may be behind this wire, from a model on the operator's own machine to a gateway.
  'openai-compatible': [['', 1, 0.5, 3]],
};

const listed = new Map(
  Object.entries(table).map(([provider, rows]) => [
    provider,
    rows.map(([prefix, input, cachedInput, output]): [string, Price] => [prefix, { input, cachedInput, output }]),
  ]),
);

const unknownPrice: Price = { input: 5, cachedInput: 5, output: 25 };

export function priceOf(provider: string, name: string, overrides: PriceOverrides = new Map()): Price {
  const model = shortName(provider, name);
  const own = longestMatch(
    [...overrides].flatMap(([key, price]): [string, Price][] => {
      if (key === provider) return [['', price]];
      return key.startsWith(`${provider}/`) ? [[shortName(provider, key.slice(provider.length + 1)), price]] : [];
    }),
    model,
  );
  if (own !== undefined) return own;
  return longestMatch(listed.get(provider) ?? [], model) ?? unknownPrice;
}

/** Google takes `models/gemini-2.5-pro` as well as `gemini-2.5-pro`. */
export function shortName(provider: string, name: string): string {
  return provider === 'google' ? name.replace(/^models\//, '') : name;
}

/** Whole micro-dollars, rounded up: a turn that used tokens is never free unless its price is. */
export function costMicros(price: Price, usage: Usage): number {
  const fresh = Math.max(0, usage.input - usage.cachedInput);
  const cost = fresh * price.input + usage.cachedInput * price.cachedInput + usage.output * price.output;
  // Rounding up must not make a micro-dollar out of an error of floating-point addition, as in 0.1 + 0.2.
  return Math.ceil(Number(cost.toFixed(6)));
}

/** Reads the operator's JSON, `{"openai/gpt-5": {"input": 1.25, "cached_input": 0.125, "output": 10}}`. Throws on anything else. */
export function parsePrices(json: string): PriceOverrides {
  const value = parseJson(json);
  if (!isRecord(value)) throw new Error('must be a JSON object of "provider/model" to a price');
  const prices = new Map<string, Price>();
  for (const [key, entry] of Object.entries(value)) {
    const [provider = ''] = key.split('/');
    if (!listed.has(provider)) throw new Error(`"${key}" must start with one of ${[...listed.keys()].join(', ')}`);
    if (!isRecord(entry)) throw new Error(`"${key}" must be an object with input and output`);
    for (const field of Object.keys(entry)) if (!priceFields.has(field)) throw new Error(`"${key}" has the unknown field "${field}"`);
    const input = readAmount(key, 'input', entry.input);
    const cachedInput = entry.cached_input === undefined ? input : readAmount(key, 'cached_input', entry.cached_input);
    prices.set(key, { input, cachedInput, output: readAmount(key, 'output', entry.output) });
  }
  return prices;
}

const priceFields = new Set(['input', 'cached_input', 'output']);

/** A dollar. With no limit, a mistyped price could make a turn cost more than the database can store, and the turn could not end. */
const maxAmount = 1_000_000;

function readAmount(key: string, field: string, value: unknown): number {
  if (typeof value === 'number' && value >= 0 && value <= maxAmount) return value;
  throw new Error(`"${key}" must have "${field}" as a number of micro-dollars a token, from 0 to ${maxAmount}`);
}

function longestMatch(prices: [prefix: string, price: Price][], name: string): Price | undefined {
  let best: [string, Price] | undefined;
  for (const entry of prices) {
    if (name.startsWith(entry[0]) && (best === undefined || entry[0].length > best[0].length)) best = entry;
  }
  return best?.[1];
}
