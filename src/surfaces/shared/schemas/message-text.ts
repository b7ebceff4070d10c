/** The text of one message, on every wire. */
export const maxTextCharacters = 200_000;

/** Counts as the schemas do: an emoji is one character, however many units a string stores it in. */
export function isTooLong(text: string): boolean {
  if (text.length <= maxTextCharacters) return false;
  let characters = 0;
  for (const _ of text) characters += 1;
  return characters > maxTextCharacters;
}
