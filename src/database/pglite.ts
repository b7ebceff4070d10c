import { join } from 'node:path';
import { PGlite, type PGliteOptions, types } from '@electric-sql/pglite';
import { Kysely, PGliteDialect } from 'kysely';
import { lookAtSockets } from '../load/arrivals.ts';
import { prepareDataDirectory } from './data-directory.ts';
import type { Database, PreparedStatement } from './database.ts';
import { lockDirectory } from './directory-lock.ts';
import { watchDiskSpace } from './disk-space.ts';
import type { Schema } from './schema.ts';
import { keepUp } from './upkeep.ts';

const parsers = {
  [types.INT8]: (value: string) => Number(value),
  [types.DATE]: (value: string) => value,
};

/** All of the engine's cache is resident from the start; beyond this, the system's page cache serves. */
const startParams = [...PGlite.defaultStartParams, '-c', 'shared_buffers=32MB'];

/**
 * Lets the process look at its sockets before each statement. The engine works on this thread and answers at once, so that
 * statements waiting in line would otherwise run in one go while connections and requests wait to be read.
 */
class YieldingPGlite extends PGlite {
  /** Statements and transactions that were asked for and have not ended. */
  pending = 0;

  override async _runExclusiveTransaction<Result>(work: () => Promise<Result>): Promise<Result> {
    this.pending += 1;
    try {
      return await super._runExclusiveTransaction(async () => {
        await lookAtSockets();
        return work();
      });
    } finally {
      this.pending -= 1;
    }
  }
}

/** The embedded engine: one connection, on this thread, in `<data dir>/db`. A second process is refused. */
export async function openPGlite(dataDirectory: string): Promise<Database> {
  await prepareDataDirectory(dataDirectory);
  const release = await lockDirectory(dataDirectory);
  try {
    return await wrapPGlite({ dataDir: join(dataDirectory, 'db') }, watchDiskSpace(dataDirectory), release);
  } catch (error) {
    await release();
    throw error;
  }
}

/** Opens PGlite with any options; tests keep one in memory this way. */
export async function wrapPGlite(
  options: PGliteOptions,
  checkSpace: () => void = () => {},
  onClosed: () => Promise<void> = async () => {},
): Promise<Database> {
  checkSpace();
  const pglite = new YieldingPGlite({ ...options, parsers, startParams });
  await pglite.waitReady;
  const db = new Kysely<Schema>({ dialect: new PGliteDialect({ pglite: refusingWrites(pglite, checkSpace) }) });
  const endUpkeep = keepUp(pglite, checkSpace);
  return {
    engine: 'pglite',
    db,
    async prepared<Row>(statement: PreparedStatement, values: unknown[]) {
      if (statement.writes) checkSpace();
      const result = await pglite.query<Row>(statement.text, values);
      return result.rows;
    },
    exclusively: (work) => work(db, async (text) => void (await pglite.exec(text))),
    async listen(receive) {
      await pglite.listen('parley', receive);
    },
    async notify(payload) {
      await pglite.query('select pg_notify($1, $2)', ['parley', payload]);
    },
    pool: () => ({ open: 1, idle: pglite.pending === 0 ? 1 : 0, waiting: Math.max(0, pglite.pending - 1) }),
    async ping() {
      checkSpace();
      await pglite.query('select 1');
    },
    async close() {
      endUpkeep();
      await pglite.close();
      await onClosed();
    },
  };
}

/** Writes are refused while the disk is nearly full; reads go on. A transaction is for writing. */
function refusingWrites(pglite: PGlite, checkSpace: () => void): PGlite {
  return new Proxy(pglite, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]) => {
        if (name === 'transaction' || (name === 'query' && isWrite.test(String(args[0])))) checkSpace();
        return Reflect.apply(value, target, args);
      };
    },
  });
}

const isWrite = /\b(insert|update|delete)\b/i;
