import type { Kysely, RawBuilder } from 'kysely';
import { errorCode } from '../errors.ts';
import type { Schema } from './schema.ts';

export type Db = Kysely<Schema>;

/** One SQL dialect over two engines. */
export interface Database {
  readonly engine: 'pglite' | 'postgres';
  readonly db: Db;
  /** Runs a frequent statement, which is prepared once per connection. */
  prepared<Row>(statement: PreparedStatement, values: unknown[]): Promise<Row[]>;
  /** Runs a statement that must not wait for others. On PostgreSQL it has a connection of its own and fails after two seconds. */
  urgently<Row>(statement: RawBuilder<Row>): Promise<Row[]>;
  /** Works on a connection of its own without time limits, while no other process of the installation does the same. */
  exclusively(work: (db: Db, runScript: (statements: string) => Promise<void>) => Promise<void>): Promise<void>;
  /** Calls back for every notification on the channel `parley`, until closed. */
  listen(receive: (payload: string) => void): Promise<void>;
  notify(payload: string): Promise<void>;
  /** Open connections, those of them that are idle, and statements that wait for a connection. */
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

/** Classes of SQLSTATE that concern the server, not the statement: connection, login, database, resources, operator, system. */
const serverClasses = new Set(['08', '28', '3D', '53', '57', '58']);
/** Single states likewise: a standby takes no writes, a transaction timed out, a statement lost a conflict and may be tried again. */
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
/** Error codes of TLS, for a server whose certificate has expired or is not trusted. */
const tlsCodes = /CERT|^UNABLE_TO_|^ERR_(TLS|SSL)_|^EPROTO$/;
/** Messages of `pg` about a lost or closed connection, which come without a code. */
const lostConnection =
  /SSL connection|^SASL|Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error|Client was closed|Cannot use a pool after|Query read timeout/;

/** True when the database answers but takes no writes, because its disk is full or it is a standby. This does not pass by itself. */
export function refusesWrites(error: unknown): boolean {
  return ['53100', '25006'].includes(errorCode(error) ?? '');
}

/** True when the content is at fault and a retry would fail again: it cannot be turned into JSON, or the database cannot store it. */
export function refusesContent(error: unknown): boolean {
  return error instanceof RangeError || /^2[0-3]/.test(errorCode(error) ?? '');
}

const unsent = new WeakSet<Error>();

/** Marks and throws the reason why there was no connection. */
export function throwUnsent(error: Error): never {
  unsent.add(error);
  throw error;
}

/** True when there was no connection, so that the statement was certainly not carried out. */
export function isUnsent(error: unknown): boolean {
  return error instanceof Error && unsent.has(error);
}

/** True for a failure of the database, not of the statement: the caller may answer 503 or retry. The statement may have been carried out. */
export function isDatabaseFailure(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = errorCode(error) ?? '';
  if (socketCodes.has(code) || serverStates.has(code) || tlsCodes.test(code)) return true;
  if (code.length === 5 && serverClasses.has(code.slice(0, 2))) return true;
  // What ends a connection, or refuses one, is not the statement, whatever its state: 55000 is also a database closed for maintenance.
  if ('severity' in error && error.severity === 'FATAL') return true;
  return lostConnection.test(error.message);
}
