/** Any JSON value (`any`): tests read the fields that they expect. */
export type Json = ReturnType<typeof JSON.parse>;

/** Returns undefined if the text is not JSON. */
export function parseJson(text: string): Json {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
