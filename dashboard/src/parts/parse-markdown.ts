import { Lexer, Marked, type Token, type TokensList } from 'marked';

/** Of one paragraph, cell or the like. What marked needs for it grows with the square of its length: up to a quarter of a second. */
const maxInlineCharacters = 4_000;
/** For a whole message. The rest of one that takes longer is shown as it was written. */
const maxMilliseconds = 200;
/** Of quotes and lists, and of emphasis in them. */
const maxDepth = 30;

// HTML in an agent's message is shown as text, and an image as its alternative text.
const marked = new Marked({
  gfm: true,
  breaks: true,
  async: false,
  renderer: { html: ({ text }) => escapeHtml(text), image: ({ text }) => escapeHtml(text) },
});

/**
 * The HTML of an agent's Markdown, not sanitized yet. An end user can have an agent say anything, so time and nesting are limited:
 * otherwise one message could freeze the page, or take it down.
 */
export function parseMarkdown(text: string): string {
  return marked.parser(new LimitedLexer(marked.defaults).lex(text));
}

class LimitedLexer extends Lexer {
  private readonly deadline = performance.now() + maxMilliseconds;
  private depth = 0;

  override blockTokens(source: string, tokens?: Token[], lastParagraphClipped?: boolean): Token[];
  override blockTokens(source: string, tokens?: TokensList, lastParagraphClipped?: boolean): TokensList;
  override blockTokens(source: string, tokens: Token[] = [], lastParagraphClipped = false): Token[] {
    return this.limit(source, tokens, Number.POSITIVE_INFINITY, () => super.blockTokens(source, tokens, lastParagraphClipped));
  }

  override inlineTokens(source: string, tokens: Token[] = []): Token[] {
    return this.limit(source, tokens, maxInlineCharacters, () => super.inlineTokens(source, tokens));
  }

  private limit(source: string, tokens: Token[], maxCharacters: number, parse: () => Token[]): Token[] {
    if (source.length > maxCharacters || this.depth === maxDepth || performance.now() > this.deadline) {
      tokens.push({ type: 'text', raw: source, text: source, escaped: false });
      return tokens;
    }
    this.depth += 1;
    const parsed = parse();
    this.depth -= 1;
    return parsed;
  }
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
