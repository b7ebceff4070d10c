import { ServiceError } from '../../errors.ts';

/** The text of one message, on every wire. */
export const maxTextCharacters = 200_000;

/** The text of content as the two adapters take it: a string, or parts, none of which may be anything but text. */
export function contentText(content: string | { text?: string; refusal?: string }[] | null | undefined, path: string): string {
  if (typeof content === 'string') return content;
  let text = '';
  for (const [index, part] of (content ?? []).entries()) {
    const piece = part.text ?? part.refusal;
    if (piece === undefined) throw new ServiceError('invalid', `${path}.${index}: only text is accepted`);
    text += piece;
  }
  return text;
}

/** Counts as the schemas do: an emoji is one character, however many units a string stores it in. */
export function isTooLong(text: string): boolean {
  if (text.length <= maxTextCharacters) return false;
  let characters = 0;
  for (const _ of text) characters += 1;
  return characters > maxTextCharacters;
}
