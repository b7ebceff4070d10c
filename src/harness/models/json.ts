import type { JSONObject } from '@ai-sdk/provider';
import { isRecord, parseJson } from '../../json.ts';

/** An object as JSON has it: what providers' options and metadata are made of. */
export type JsonObject = JSONObject;

/** For values that came out of JSON, where an object holds nothing but JSON. */
export function isJsonObject(value: unknown): value is JsonObject {
  return isRecord(value);
}

/** A tool's input as the model wrote it; what is no JSON, or nests too deep, stays text, for the tool to refuse. */
export function parseToolInput(text: string): unknown {
  if (text.trim() === '') return {};
  const input = parseJson(text);
  return input === undefined || isTooDeep(input) ? text : input;
}

export const maxInputDepth = 100;

/** Parsing takes any depth, but writing such a value again overflows the stack. */
export function isTooDeep(value: unknown, levels = maxInputDepth): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isTooDeep(inner, levels - 1));
}

/** Providers take only objects as a tool's input. */
export function toolInputObject(input: unknown): JsonObject {
  return isJsonObject(input) ? input : { invalid_input: typeof input === 'string' ? input : JSON.stringify(input) };
}
