import type { Command } from 'commander';

/** An entry of a list, as the server sent it. */
export type Row = Record<string, unknown>;

/** Prints data as JSON with `--json`, otherwise as `words`. */
export function print(command: Command, data: unknown, words: () => string): void {
  const { json } = command.optsWithGlobals<{ json?: boolean }>();
  process.stdout.write(`${json ? jsonText(data) : harmless(words())}\n`);
}

/** JSON with all control characters escaped. `JSON.stringify` leaves the C1 characters as they are, which terminals obey too. */
export function jsonText(data: unknown): string {
  return JSON.stringify(data, null, 2).replaceAll(/[\u007f-\u009f]/g, (character) => `\\u00${character.charCodeAt(0).toString(16)}`);
}

/** Columns as wide as their widest cell. `empty` is printed instead of a table without rows. */
export function table(rows: readonly Row[], columns: string[], empty: string): string {
  if (rows.length === 0) return empty;
  const cells = [columns.map((name) => name.toUpperCase()), ...rows.map((row) => columns.map((name) => cell(row[name])))];
  const widths = columns.map((_name, index) => cells.reduce((most, line) => Math.max(most, displayWidth(line[index] ?? '')), 0));
  return cells
    .map((line) =>
      line
        .map((text, index) => text + ' '.repeat((widths[index] ?? 0) - displayWidth(text)))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** Text from others, made safe for a terminal: without control characters it cannot move the cursor or hide earlier output. */
export function harmless(text: string): string {
  return text.replaceAll(/[^\P{Cc}\n\t]/gu, '\uFFFD');
}

/** The same for text that arrives in pieces, such as an export of the audit log, in which names and user agents are as others sent them. */
export async function* harmlessStream(pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array | string>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  for await (const piece of pieces) {
    const text = typeof piece === 'string' ? piece : decoder.decode(piece, { stream: true });
    yield harmless(text.replaceAll('\r', ''));
  }
}

/** An error message on one line, since it may be the error page of a proxy. */
export function oneLine(text: string): string {
  return harmless(text.replaceAll(/\s+/g, ' '));
}

/** The first characters of a text, as a person counts them, with an ellipsis if there were more. */
export function shortened(text: string, most: number): string {
  let count = 0;
  for (const { index } of characters.segment(text)) {
    if (count === most) return `${text.slice(0, index)}…`;
    count += 1;
  }
  return text;
}

function cell(value: unknown): string {
  if (value === null || value === undefined) return '-';
  const text = typeof value === 'object' && !Array.isArray(value) ? JSON.stringify(value) : String(value);
  return text.replaceAll(/[\n\t]/g, ' ') || '-';
}

const characters = new Intl.Segmenter();
/** Emoji, and what Unicode calls wide or fullwidth: Chinese, Japanese and Korean. */
const wide =
  /^(?:\p{Emoji_Presentation}|.\uFE0F|[\u1100-\u115F\u2E80-\u303E\u3041-\uA4CF\uA960-\uA97C\uAC00-\uD7A3\uF900-\uFAFF\uFE10-\uFE19\uFE30-\uFE6F\uFF01-\uFF60\uFFE0-\uFFE6\u{16FE0}-\u{18DFF}\u{1AFF0}-\u{1B2FF}\u{20000}-\u{3FFFD}])/u;

/** How many columns of a terminal a text takes. */
function displayWidth(text: string): number {
  if (/^[ -~]*$/.test(text)) return text.length;
  return [...characters.segment(text)].reduce(
    (sum, { segment }) => sum + (wide.test(segment) ? 2 : /^[\p{M}\p{Cf}]/u.test(segment) ? 0 : 1),
    0,
  );
}
