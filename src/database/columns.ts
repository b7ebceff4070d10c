import type { ColumnType } from 'kysely';

/** JSON is written as text (`JSON.stringify`) and read parsed, alike on both engines. */
export type Json<Value> = ColumnType<Value, string, string>;
export type JsonWithDefault<Value> = ColumnType<Value, string | undefined, string>;
export type Nullable<Value> = ColumnType<Value | null, Value | null | undefined, Value | null>;
export type CreatedAt = ColumnType<Date, Date | undefined, Date>;
