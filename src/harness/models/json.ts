import type { JSONObject } from '@ai-sdk/provider';

/** An object as JSON has it: what providers' options and metadata are made of. */
export type JsonObject = JSONObject;

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** For values that came out of JSON, where an object holds nothing but JSON. */
export function isJsonObject(value: unknown): value is JsonObject {
  return isRecord(value);
}

/** A tool's input as the model wrote it; what is no JSON stays as it is, for the tool to refuse. */
export function parseToolInput(text: string): unknown {
  if (text.trim() === '') return {};
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Providers take only objects as a tool's input. */
export function toolInputObject(input: unknown): JsonObject {
  return isJsonObject(input) ? input : { invalid_input: typeof input === 'string' ? input : JSON.stringify(input) };
}
