import type { Kysely, RawBuilder } from 'kysely';
import { errorCode } from '../errors.ts';
import type { Schema } from './schema.ts';

export type Db = Kysely<Schema>;

/** One SQL dialect over two engines. */
export interface Database {
  readonly engine: 'pglite' | 'postgres';
  readonly db: Db;
  /** Runs a hot statement, prepared once per connection where the engine can. */
  prepared<Row>(statement: PreparedStatement, values: unknown[]): Promise<Row[]>;
  /** Runs a statement that others must not hold up: on a connection of its own, and for two seconds at most, where the engine has several. */
  urgently<Row>(statement: RawBuilder<Row>): Promise<Row[]>;
  /** Works on a connection of its own that may take its time, while no other process of the installation does the same. */
  exclusively(work: (db: Db, runScript: (statements: string) => Promise<void>) => Promise<void>): Promise<void>;
  /** Calls back for every notification on the channel `parley`, until closed. */
  listen(receive: (payload: string) => void): Promise<void>;
  notify(payload: string): Promise<void>;
  /** Connections that are open, those of them that do nothing, and statements that wait for one. */
  pool(): { open: number; idle: number; waiting: number };
  /** Throws unless the database answers and can take writes. */
  ping(): Promise<void>;
  close(): Promise<void>;
}

export interface PreparedStatement {
  name: string;
  text: string;
  writes?: true;
}

/** Classes of SQLSTATE that speak of the server, not of the statement: connection, login, database, resources, operator, system. */
const serverClasses = new Set(['08', '28', '3D', '53', '57', '58']);
/** Besides: a standby takes no writes; a transaction took longer than allowed; a statement lost against another one may be tried again. */
const serverStates = new Set(['25006', '25P03', '25P04', '40001', '40P01', '55P03']);
const socketCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOENT',
  'ENOTFOUND',
  'EAI_AGAIN',
]);
/** What TLS says of a server whose certificate has expired, or was replaced by one that is not trusted. */
const tlsCodes = /CERT|^UNABLE_TO_|^ERR_(TLS|SSL)_|^EPROTO$/;
const lostWords =
  /SSL connection|^SASL|Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error|Client was closed|Cannot use a pool after|Query read timeout/;

/** True when the database answers and takes no writes: its disk is full, or it is a standby. It does not pass by itself. */
export function refusesWrites(error: unknown): boolean {
  return ['53100', '25006'].includes(errorCode(error) ?? '');
}

/** True when what was to be written is at fault, and would be again: it is no JSON, or data that the database does not take. */
export function refusesContent(error: unknown): boolean {
  return error instanceof RangeError || /^2[0-3]/.test(errorCode(error) ?? '');
}

/** True for a failure of the database rather than of the statement: the caller may answer 503 and try again. Whether it was carried out is open. */
export function isDatabaseFailure(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = errorCode(error) ?? '';
  if (socketCodes.has(code) || serverStates.has(code) || tlsCodes.test(code)) return true;
  if (code.length === 5 && serverClasses.has(code.slice(0, 2))) return true;
  return lostWords.test(error.message);
}
