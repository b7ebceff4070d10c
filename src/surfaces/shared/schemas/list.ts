import type { TSchema } from 'typebox';
import { ServiceError } from '../../../errors.ts';
import { parseJson } from '../../../text/json.ts';
import { Type } from './type.ts';

/** Lists are `{data, next_cursor}`. The cursor, opaque to the client, says which list it is of and where the page ended. */
export const pageQuery = {
  limit: Type.Optional(Type.Integer({ default: 50, description: 'Page size, clamped to 1..200.' })),
  cursor: Type.Optional(Type.String({ description: 'The `next_cursor` of the previous page.' })),
};

export function listOf<Item extends TSchema>(item: Item) {
  return Type.Object({ data: Type.Array(item), next_cursor: Type.Union([Type.String(), Type.Null()]) });
}

export function limitOf({ limit }: { limit?: number | undefined }, fallback = 50, most = 200): number {
  return Math.min(most, Math.max(1, limit ?? fallback));
}

/** Reads one entry more than the page holds, so that the last page has no cursor. */
export async function readPage<Item, Shown>(
  list: string,
  limit: number,
  read: (limit: number) => Promise<Item[]>,
  positionOf: (item: Item) => string | number | (string | number)[],
  show: (item: Item) => Shown,
): Promise<{ data: Shown[]; next_cursor: string | null }> {
  const items = await read(limit + 1);
  return pageOf(list, items.slice(0, limit), items.length > limit, positionOf, show);
}

export function pageOf<Item, Shown>(
  list: string,
  page: readonly Item[],
  hasMore: boolean,
  positionOf: (item: Item) => string | number | (string | number)[],
  show: (item: Item) => Shown,
): { data: Shown[]; next_cursor: string | null } {
  const last = page.at(-1);
  return { data: page.map(show), next_cursor: hasMore && last !== undefined ? encodeCursor(list, [positionOf(last)].flat()) : null };
}

export function encodeCursor(list: string, position: (string | number)[]): string {
  return Buffer.from(JSON.stringify([list, ...position])).toString('base64url');
}

/** Whether a part of a position can be compared with a column of this type: any other value would fail in the query. */
const fitsColumn = {
  text: (part: unknown) => typeof part === 'string' && !part.includes('\0') && part.isWellFormed(),
  integer: (part: unknown) => Number.isSafeInteger(part) && Math.abs(Number(part)) < 2 ** 31,
  bigint: (part: unknown) => Number.isSafeInteger(part),
};

/** The position in a cursor; `shape` has the types of the columns. Throws `invalid` for anything that is not a cursor of this list. */
export function decodeCursor(
  list: string,
  cursor: string | undefined,
  shape: readonly (keyof typeof fitsColumn)[],
): (string | number)[] | undefined {
  if (cursor === undefined || cursor === '') return undefined;
  const parts = parseJson(Buffer.from(cursor, 'base64url').toString('utf8'));
  const [name, ...position] = Array.isArray(parts) ? parts : [];
  const fits = name === list && position.length === shape.length && shape.every((type, index) => fitsColumn[type](position[index]));
  // Base64 decoding skips invalid characters: an altered cursor shows when the position is encoded again.
  if (!fits || encodeCursor(list, position) !== cursor) throw badCursor();
  return position;
}

export function badCursor(): ServiceError {
  return new ServiceError('invalid', 'cursor: is not a cursor of this list');
}

export function decodeTextCursor(list: string, cursor: string | undefined): string | undefined {
  const position = decodeCursor(list, cursor, ['text'])?.[0];
  return position === undefined ? undefined : String(position);
}

export function decodeIntegerCursor(list: string, cursor: string | undefined): number | undefined {
  const position = decodeCursor(list, cursor, ['integer'])?.[0];
  return position === undefined ? undefined : Number(position);
}

/** For rows that are counted over all organizations together, which may be more than an integer counts. */
export function decodeBigintCursor(list: string, cursor: string | undefined): number | undefined {
  const position = decodeCursor(list, cursor, ['bigint'])?.[0];
  return position === undefined ? undefined : Number(position);
}
