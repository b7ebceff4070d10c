import { stringify } from 'csv-stringify/sync';
import { timestamp } from '../clock.ts';
import { type AuditLine, lineColumns } from './read.ts';

const columns = [...lineColumns, 'metadata'] as const;

/** The export as RFC 4180 text, one chunk a page. */
export async function* auditCsv(pages: AsyncIterable<AuditLine[]>): AsyncGenerator<string> {
  yield `${columns.join(',')}\r\n`;
  for await (const rows of pages) yield stringify(rows.map(cells), { record_delimiter: 'windows', quoted_match: /[\r\n]/ });
}

function cells(row: AuditLine): string[] {
  const values = { ...row, created_at: timestamp(row.created_at) };
  return columns.map((column) => neutralizeFormula(values[column] ?? ''));
}

/**
 * A spreadsheet runs a cell that begins with one of these characters as a formula, some after skipping blanks and a
 * byte-order mark. An apostrophe in front makes it text.
 */
function neutralizeFormula(cell: string): string {
  return /^[\s\uFEFF]*[=+\-@\uFF1D\uFF0B\uFF0D\uFF20]|^[\t\r\n]/.test(cell) ? `'${cell}` : cell;
}
