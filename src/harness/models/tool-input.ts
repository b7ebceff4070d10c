import { isJsonObject, type JsonObject, parseJson } from '../../text/json.ts';

/** A tool's input as the model wrote it. What is not JSON, or nested too deeply, stays text, which the tool refuses. */
export function parseToolInput(text: string): unknown {
  if (text.trim() === '') return {};
  const input = parseJson(text);
  return input === undefined || isTooDeep(input) ? text : input;
}

export const maxInputDepth = 100;

/** Any depth can be parsed, but serialising a value that is nested too deeply overflows the stack. */
export function isTooDeep(value: unknown, levels = maxInputDepth): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isTooDeep(inner, levels - 1));
}

/** Providers accept only objects as a tool's input. */
export function toolInputObject(input: unknown): JsonObject {
  return isJsonObject(input) ? input : { invalid_input: typeof input === 'string' ? input : JSON.stringify(input) };
}

/** A model may call a tool that it made up. Providers refuse a name with other characters, and every later call that contains it. */
export function sentToolName(name: string): string {
  return name.replace(/[^a-zA-Z0-9_-]/g, '_').slice(0, 64) || 'unknown';
}
