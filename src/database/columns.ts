import type { ColumnType } from 'kysely';

/** On both engines, JSON is written as text (`JSON.stringify`) and read as a parsed value. */
export type Json<Value> = ColumnType<Value, string, string>;
export type JsonWithDefault<Value> = ColumnType<Value, string | undefined, string>;
export type Nullable<Value> = ColumnType<Value | null, Value | null | undefined, Value | null>;
export type CreatedAt = ColumnType<Date, Date | undefined, Date>;
