import type { JSONObject } from '@ai-sdk/provider';

/** A JSON object, as in the options and metadata of providers. */
export type JsonObject = JSONObject;

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** For values that were parsed from JSON, where every object is a JSON object. */
export function isJsonObject(value: unknown): value is JsonObject {
  return isRecord(value);
}

/** Undefined when the text is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A field of something that nobody has validated yet. */
export function fieldOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name) ? Reflect.get(value, name) : undefined;
}
