import { ServiceError } from '../../../errors.ts';

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
