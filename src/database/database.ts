import type { Kysely } from 'kysely';
import type { Schema } from './schema.ts';

export type Db = Kysely<Schema>;

/** One SQL dialect over two engines. */
export interface Database {
  readonly engine: 'pglite' | 'postgres';
  readonly db: Db;
  /** Runs a hot statement, prepared once per connection where the engine can. */
  prepared<Row>(statement: PreparedStatement, values: unknown[]): Promise<Row[]>;
  /** Runs several statements at once, outside of any transaction of ours. */
  script(sql: string): Promise<void>;
  /** Calls back for every notification on the channel `parley`, until closed. */
  listen(receive: (payload: string) => void): Promise<void>;
  notify(payload: string): Promise<void>;
  /** Throws unless the database answers. */
  ping(): Promise<void>;
  close(): Promise<void>;
}

export interface PreparedStatement {
  name: string;
  text: string;
}

/** True for a failure of the connection rather than of the statement: the caller may answer 503 and try again. */
export function isConnectionFailure(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  if (/^(08|57P0)/.test(code) || ['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'ENOENT', 'ENOTFOUND', '53300'].includes(code))
    return true;
  return /Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error/.test(error.message);
}
