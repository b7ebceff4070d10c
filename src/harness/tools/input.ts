import { isRecord } from '../../text/json.ts';

/** A tool's input comes from a model: anything may be missing or of another type. */
export function textField(input: unknown, name: string): string | undefined {
  const value = isRecord(input) ? input[name] : undefined;
  return typeof value === 'string' ? value : undefined;
}

/** The beginning of a text, short enough to be shown to a person in an approval. */
export function excerpt(text: string, length = 1_000): string {
  return text.length <= length ? text : `${text.slice(0, length).toWellFormed()}... (${text.length} characters)`;
}
