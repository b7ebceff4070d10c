import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import { ConfigError } from '../config.ts';
import { causesOf, errorCode, errorMessage } from '../errors.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Database, Db } from './database.ts';

const directory = new URL('../../migrations/', import.meta.url);

const warnAfterMs = 2_000;
/**
 * How long a migration waits for the lock on a table, and then pauses before it tries again. While it waits in PostgreSQL's queue,
 * everyone who comes after it waits too, even to read; and a backup, for example, holds tables for a long time.
 */
const lockMs = 1_000;
/** SQLSTATE of a lock timeout and of a deadlock. */
const lockFailures = new Set(['55P03', '40P01']);

/** What the operator should do about the database, by SQLSTATE. */
const advices: Record<string, string> = {
  '42501': 'Its role must own the database',
  '25006': 'Name a server that takes writes, not a standby',
  '3F000': 'The search_path of its role must name a schema that is there',
};

/**
 * Applies the migrations that are missing, each in a transaction of its own. Several processes may call it at once: they wait for
 * each other. Returns the names of applied migrations that this version does not know, because a newer version applied them.
 */
export async function migrate(database: Database, logger?: Logger): Promise<string[]> {
  let foreign: string[] = [];
  const waiting = setTimeout(() => logger?.warn('waiting for another process to migrate the database'), warnAfterMs);
  await database
    .exclusively(async (db, runScript) => {
      clearTimeout(waiting);
      const found = await compareMigrations(db);
      const { missing, isNew } = found;
      foreign = found.foreign;
      if (!isNew && missing.length > 0) logger?.warn({ migrations: missing }, 'migrating the database');
      for (const file of missing) await apply(file, runScript, logger);
    })
    .finally(() => clearTimeout(waiting))
    .catch(explain);
  return foreign;
}

/** The migrations that the database misses, and those in it that this version does not know. */
export async function compareMigrations(db: Db): Promise<{ missing: string[]; foreign: string[]; isNew: boolean }> {
  const files = (await readdir(directory)).filter((file) => file.endsWith('.sql')).sort();
  const applied = await appliedMigrations(db);
  const missing = files.filter((file) => !applied.includes(file));
  // Compared without their numbers: some were renumbered before the first release.
  const known = new Set(files.map(withoutNumber));
  const foreign = applied.filter((name) => !known.has(withoutNumber(name))).sort();
  return { missing, foreign, isNew: applied.length === 0 };
}

export function describeNewer(foreign: string[]): string | undefined {
  if (foreign.length === 0) return undefined;
  return `A newer version of Parley has changed this database (${foreign.join(', ')}). This version is meant to run on it only during an upgrade.`;
}

/** Throws what a start would throw if the database cannot be migrated. */
export async function checkWritable(database: Database): Promise<void> {
  const transaction = await database.db.startTransaction().execute();
  try {
    await sql`create table never_made ()`.execute(transaction).catch(explain);
  } finally {
    await transaction.rollback().execute();
  }
}

function explain(error: unknown): never {
  const advice = causesOf(error)
    .map((cause) => advices[errorCode(cause) ?? ''])
    .find((text) => text !== undefined);
  throw advice === undefined ? error : new ConfigError(`DATABASE_URL: ${errorMessage(error)}. ${advice}`, { cause: error });
}

function withoutNumber(file: string): string {
  return file.replace(/^\d+-/, '');
}

async function appliedMigrations(db: Db): Promise<string[]> {
  await sql`create table if not exists migrations (name text primary key, applied_at timestamptz not null default now())`.execute(db);
  const { rows } = await sql<{ name: string }>`select name from migrations`.execute(db);
  return rows.map((row) => row.name);
}

async function apply(file: string, runScript: (text: string) => Promise<void>, logger: Logger | undefined): Promise<void> {
  const text = await readFile(new URL(file, directory), 'utf8');
  const script = `begin;\nset local lock_timeout = ${lockMs};\n${text}\ninsert into migrations (name) values ('${file}');\ncommit;`;
  for (;;) {
    try {
      return await runScript(script);
    } catch (error) {
      if (!lockFailures.has(errorCode(error) ?? '')) throw new Error(`migrations/${file}: ${errorMessage(error)}`, { cause: error });
      await runScript('rollback');
      logger?.warn({ migration: file }, 'waiting for a table that others use, to migrate it');
      await sleep(lockMs);
    }
  }
}
