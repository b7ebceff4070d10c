import { type RawBuilder, sql } from 'kysely';

/** Any number of ids as one parameter: `where id in ${idList(ids)}`. As JSON, which both engines take alike. */
export function idList(ids: readonly string[]): RawBuilder<unknown> {
  return sql`(select value from json_array_elements_text(${JSON.stringify(ids)}::json) value)`;
}

/** The same where the column is a UUID. */
export function uuidList(ids: readonly string[]): RawBuilder<unknown> {
  return sql`(select value::uuid from json_array_elements_text(${JSON.stringify(ids)}::json) value)`;
}
