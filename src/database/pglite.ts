import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { PGlite, type PGliteOptions, types } from '@electric-sql/pglite';
import { Kysely, PGliteDialect } from 'kysely';
import type { Database, PreparedStatement } from './database.ts';
import { lockDirectory } from './directory-lock.ts';
import type { Schema } from './schema.ts';

const parsers = {
  [types.INT8]: (value: string) => Number(value),
  [types.DATE]: (value: string) => value,
};

/** The embedded engine: one connection, on this thread, in `<data dir>/db`. A second process is refused. */
export async function openPGlite(dataDirectory: string): Promise<Database> {
  await mkdir(dataDirectory, { recursive: true, mode: 0o700 });
  const release = await lockDirectory(dataDirectory);
  try {
    return await wrapPGlite({ dataDir: join(dataDirectory, 'db') }, release);
  } catch (error) {
    await release();
    throw error;
  }
}

/** Opens PGlite with any options; tests load a prepared data directory this way. */
export async function wrapPGlite(options: PGliteOptions, onClosed: () => Promise<void> = async () => {}): Promise<Database> {
  const pglite = await PGlite.create({ ...options, parsers });
  const db = new Kysely<Schema>({ dialect: new PGliteDialect({ pglite }) });
  return {
    engine: 'pglite',
    db,
    async prepared<Row>(statement: PreparedStatement, values: unknown[]) {
      const result = await pglite.query<Row>(statement.text, values);
      return result.rows;
    },
    async script(sql) {
      await pglite.exec(sql);
    },
    exclusively: (work) => work(db, async (text) => void (await pglite.exec(text))),
    async listen(receive) {
      await pglite.listen('parley', receive);
    },
    async notify(payload) {
      await pglite.query('select pg_notify($1, $2)', ['parley', payload]);
    },
    async ping() {
      await pglite.query('select 1');
    },
    async close() {
      await pglite.close();
      await onClosed();
    },
  };
}
