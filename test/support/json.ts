/** Anything at all: a test says what it expects by reading it. */
export type Json = ReturnType<typeof JSON.parse>;

/** Undefined where the text is no JSON. */
export function parseJson(text: string): Json {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
