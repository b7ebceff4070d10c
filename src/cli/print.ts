import type { Command } from 'commander';

/** An entry of a list that the server answered. */
export type Row = Record<string, unknown>;

/** Prints data as JSON with `--json`, else as the given words. */
export function print(command: Command, data: unknown, words: () => string): void {
  const { json } = command.optsWithGlobals<{ json?: boolean }>();
  process.stdout.write(`${json ? jsonText(data) : harmless(words())}\n`);
}

/** JSON with every control character escaped: by itself it leaves those of C1 as they are, which a terminal obeys too. */
export function jsonText(data: unknown): string {
  return JSON.stringify(data, null, 2).replaceAll(/[\u007f-\u009f]/g, (character) => `\\u00${character.charCodeAt(0).toString(16)}`);
}

/** Columns as wide as their widest cell; an empty list says what would fill it. */
export function table(rows: readonly Row[], columns: string[], empty: string): string {
  if (rows.length === 0) return empty;
  const cells = [columns.map((name) => name.toUpperCase()), ...rows.map((row) => columns.map((name) => cell(row[name])))];
  const widths = columns.map((_name, index) => cells.reduce((most, line) => Math.max(most, line[index]?.length ?? 0), 0));
  return cells
    .map((line) =>
      line
        .map((text, index) => text.padEnd(widths[index] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** What others wrote, for a terminal: it may move no cursor and hide nothing that stands before it. */
export function harmless(text: string): string {
  return text.replaceAll(/[^\P{Cc}\n\t]/gu, '\uFFFD');
}

/** What went wrong, which may be the error page of a proxy. */
export function oneLine(text: string): string {
  return harmless(text.replaceAll(/\s+/g, ' '));
}

function cell(value: unknown): string {
  if (value === null || value === undefined) return '-';
  if (Array.isArray(value)) return value.join(',') || '-';
  return typeof value === 'object' ? JSON.stringify(value) : String(value).replaceAll(/[\n\t]/g, ' ');
}
