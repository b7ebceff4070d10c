// Creates a fresh, migrated database of the engine under test in well under a second, by copying a template that is made once.
import { createHash, randomBytes } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { sql } from 'kysely';
import pg from 'pg';
import { loadConfig } from '../../src/config.ts';
import type { Database } from '../../src/database/database.ts';
import { migrate } from '../../src/database/migrate.ts';
import { openDatabase } from '../../src/database/open.ts';
import { openPGlite } from '../../src/database/pglite.ts';
import { openPostgres } from '../../src/database/postgres.ts';
import { endWithUs } from './end-with-us.ts';
import { startPostgres } from './postgres-server.ts';

/** Set by PARLEY_TEST_ENGINE, so that the same files run on both. */
export const engine: 'pglite' | 'postgres' = process.env.PARLEY_TEST_ENGINE === 'postgres' ? 'postgres' : 'pglite';

/**
 * V8 does not optimize PGlite's WebAssembly: no test runs long enough to gain from that. It would take half the CPU time of a
 * start and a third of that of most test files.
 */
export const engineFlags = ['--no-wasm-tier-up', '--no-wasm-dynamic-tiering'];
setFlagsFromString(engineFlags.join(' '));

export interface TestDatabase {
  /** The environment variables with which a server uses it. */
  settings: { PARLEY_DATA_DIR: string; DATABASE_URL?: string };
  remove(): Promise<void>;
}

/** With PostgreSQL, it is created on the server that all tests share, unless another is given. */
export async function createDatabase(onServerAt?: string): Promise<TestDatabase> {
  const directory = mkdtempSync(join(tmpdir(), 'parley-test-'));
  const forget = endWithUs(() => rmSync(directory, { recursive: true, force: true }));
  const removeDirectory = () => {
    forget();
    rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
  };
  if (engine === 'pglite') {
    keepEngineCompiled();
    cpSync(join(await pgliteTemplate(), 'db'), join(directory, 'db'), { recursive: true });
    return { settings: { PARLEY_DATA_DIR: directory }, remove: async () => removeDirectory() };
  }
  const server = onServerAt ?? (await postgresUrl());
  const name = `parley_test_${randomBytes(6).toString('hex')}`;
  const template = await postgresTemplate(server);
  // By copying its files, which takes half the time of copying its pages through the log.
  await onServer(server, (client) => client.query(`create database ${name} template ${template} strategy file_copy`));
  return {
    settings: { PARLEY_DATA_DIR: directory, DATABASE_URL: databaseUrl(server, name) },
    remove: async () => {
      await onServer(server, (client) => client.query(`drop database ${name} with (force)`));
      removeDirectory();
    },
  };
}

/** Creates a database and opens it. Closing it removes it. */
export async function openTestDatabase(): Promise<Database> {
  const { settings, remove } = await createDatabase();
  const database = await openDatabase(loadConfig(settings));
  return {
    ...database,
    async close() {
      await database.close();
      await remove();
    },
  };
}

const kept: object[] = [];
declare const WebAssembly: { Module: new (code: Uint8Array) => object };

/**
 * While a module of the same code exists, V8 does not compile it again. So PGlite's is compiled once for all databases of a process and
 * not for each, which takes two fifths of the CPU time of opening one.
 */
function keepEngineCompiled(): void {
  if (kept.length > 0) return;
  kept.push(new WebAssembly.Module(readFileSync(new URL('pglite.wasm', import.meta.resolve('@electric-sql/pglite')))));
}

/** The folder of a migrated PGlite that was shut down cleanly, kept until the migrations or PGlite change. */
export async function pgliteTemplate(): Promise<string> {
  const cache = fileURLToPath(new URL('../../node_modules/.cache/parley/', import.meta.url));
  const template = join(cache, `pglite-${migrationsHash()}`);
  if (existsSync(template)) return template;
  mkdirSync(cache, { recursive: true });
  const building = mkdtempSync(join(cache, 'building-'));
  const database = await openPGlite(building);
  await migrate(database);
  // PostgreSQL's own template databases are not needed, and are half of the files to copy.
  await sql`update pg_database set datistemplate = false where datname like 'template_'`.execute(database.db);
  for (const name of ['template0', 'template1']) await sql`drop database ${sql.ref(name)}`.execute(database.db);
  await database.close();
  try {
    renameSync(building, template);
  } catch (error) {
    // Another process was faster.
    rmSync(building, { recursive: true, force: true });
    if (!existsSync(template)) throw error;
  }
  return template;
}

/** Made under another name first, so that a run that dies halfway leaves no template that looks complete. */
async function postgresTemplate(server: string): Promise<string> {
  const name = `parley_template_${migrationsHash()}`;
  await onServer(server, async (client) => {
    await client.query('select pg_advisory_lock(4710)');
    const { rowCount } = await client.query('select 1 from pg_database where datname = $1', [name]);
    if (rowCount === 1) return;
    await client.query(`drop database if exists ${name}_building with (force)`);
    await client.query(`create database ${name}_building`);
    const database = await openPostgres(databaseUrl(server, `${name}_building`), 2);
    await migrate(database);
    await database.close();
    await client.query(`alter database ${name}_building rename to ${name}`);
  });
  return name;
}

let privateServer: Promise<string> | undefined;

/** `npm test` gives one server to all files; a file run by hand starts its own, which ends with the process. */
function postgresUrl(): Promise<string> {
  const given = process.env.TEST_DATABASE_URL;
  if (given) return Promise.resolve(given);
  privateServer ??= startPostgres().then((server) => server.url);
  return privateServer;
}

async function onServer(url: string, work: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}

function databaseUrl(server: string, name: string): string {
  const url = new URL(server);
  url.pathname = `/${name}`;
  return url.href;
}

function migrationsHash(): string {
  const folder = fileURLToPath(new URL('../../migrations/', import.meta.url));
  const hash = createHash('sha256').update(readFileSync(fileURLToPath(import.meta.resolve('@electric-sql/pglite'))));
  for (const file of readdirSync(folder).sort()) hash.update(file).update(readFileSync(join(folder, file)));
  return hash.digest('hex').slice(0, 12);
}
