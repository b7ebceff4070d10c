const maxPieceLength = 64;

/**
 * Cuts text into the pieces that are sent as deltas: words with the space after them, single characters of scripts that do not
 * use spaces, and at most 64 characters of anything else. The cuts depend only on the text and not on how it arrived, so that a
 * stream that is read again has the same events with the same numbers.
 */
export class TextSplitter {
  private held = '';
  private holdsWord = false;

  /** The pieces that are complete; the rest is held back until more text comes. */
  add(text: string): string[] {
    const pieces: string[] = [];
    let start = 0;
    for (let index = 0; index < text.length; index += 1) {
      const code = text.charCodeAt(index);
      const isSpace = code <= 32;
      if (!isSpace) this.holdsWord = true;
      const length = index + 1 - start + this.held.length;
      const endsPiece = isSpace ? this.holdsWord || length >= maxPieceLength : standsAlone(code) || length >= maxPieceLength;
      if (!endsPiece || isHighSurrogate(code)) continue;
      pieces.push(this.held + text.slice(start, index + 1));
      this.held = '';
      this.holdsWord = false;
      start = index + 1;
    }
    if (start < text.length) this.held += text.slice(start);
    return pieces;
  }

  /** What is left at the end of the text. */
  end(): string[] {
    const rest = this.held;
    this.held = '';
    this.holdsWord = false;
    return rest === '' ? [] : [rest];
  }
}

function standsAlone(code: number): boolean {
  return code >= 0x2e80;
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}
