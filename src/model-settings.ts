import { isJsonObject, type JsonObject } from './text/json.ts';

/** The parsed `model.settings` of a release. What is not set is left to the provider. */
export interface ModelSettings {
  temperature?: number;
  topP?: number;
  maxOutputTokens?: number;
  stop?: string[];
  providerOptions: JsonObject;
}

/** Throws the error that `refuse` makes for a setting that is unknown or has the wrong type. */
export function readModelSettings(settings: object, refuse: (name: string, reason: string) => Error): ModelSettings {
  const read: ModelSettings = { providerOptions: {} };
  for (const [name, value] of Object.entries(settings)) {
    if (value === undefined || value === null) continue;
    if (name === 'temperature' && isNumber(value)) read.temperature = value;
    else if (name === 'top_p' && isNumber(value)) read.topP = value;
    else if (name === 'max_output_tokens' && isNumber(value)) read.maxOutputTokens = value;
    else if (name === 'stop' && typeof value === 'string') read.stop = [value];
    else if (name === 'stop' && isStrings(value)) read.stop = value;
    else if (name === 'provider_options' && isJsonObject(value)) read.providerOptions = value;
    else throw refuse(name, expected.get(name) ?? 'is not known');
  }
  return read;
}

const expected = new Map([
  ['temperature', 'must be a number'],
  ['top_p', 'must be a number'],
  ['max_output_tokens', 'must be a number'],
  ['stop', 'must be a string or a list of strings'],
  ['provider_options', 'must be an object'],
]);

function isNumber(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value);
}

function isStrings(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((entry) => typeof entry === 'string');
}
