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

/** Text from others, made safe for a terminal: without control characters it cannot move the cursor or hide earlier output. */
export function harmless(text: string): string {
  return text.replaceAll(/[^\P{Cc}\n\t]/gu, '\uFFFD');
}

/** An error message on one line, since it may be the error page of a proxy. */
export function oneLine(text: string): string {
  return harmless(text.replaceAll(/\s+/g, ' '));
}

function cell(value: unknown): string {
  if (value === null || value === undefined) return '-';
  if (Array.isArray(value)) return value.join(',') || '-';
  return typeof value === 'object' ? JSON.stringify(value) : String(value).replaceAll(/[\n\t]/g, ' ');
}
