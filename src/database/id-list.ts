import { type RawBuilder, sql } from 'kysely';

/** Any number of ids as one parameter, for `where id in ${idList(ids)}`. It is JSON, which both engines take in the same way. */
export function idList(ids: readonly string[]): RawBuilder<unknown> {
  return sql`(select value from json_array_elements_text(${JSON.stringify(ids)}::json) value)`;
}

/** The same for a column of UUIDs. */
export function uuidList(ids: readonly string[]): RawBuilder<unknown> {
  return sql`(select value::uuid from json_array_elements_text(${JSON.stringify(ids)}::json) value)`;
}
