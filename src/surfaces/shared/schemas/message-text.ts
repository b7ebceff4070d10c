/** The limit for the text of one message, on every surface. */
export const maxTextCharacters = 200_000;

/** Counts code points, as `maxLength` in a schema does: `text.length` counts an emoji as two. */
export function isTooLong(text: string): boolean {
  if (text.length <= maxTextCharacters) return false;
  let characters = 0;
  for (const _ of text) characters += 1;
  return characters > maxTextCharacters;
}
