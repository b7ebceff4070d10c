import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { sql } from 'kysely';
import type { Logger } from '../telemetry/logger.ts';
import type { Db } from './database.ts';

const firstMs = 10 * 60_000;
const everyMs = 60 * 60_000;
/**
 * The embedded engine runs one statement at a time, and vacuuming a larger table would block all others for seconds: that is done
 * only when it is worth it, as PostgreSQL's autovacuum decides. Without it, a table whose old rows are deleted would grow forever.
 */
const smallBytes = 256 * 1024 * 1024;
const manyDead = 0.2;
/** Transactions after which even a large table is vacuumed. After two billion, PostgreSQL would stop. */
const oldAge = 100_000_000;
const checkpointEveryMs = 60_000;
/** Size of the write-ahead log that calls for a checkpoint. A start after a crash replays all since the last one, at 30 MiB a second. */
const longLogBytes = 128 * 1024 * 1024;

/**
 * Does what PostgreSQL's background processes do, which the embedded engine does not have. Without it, the space of updated rows
 * would never be used again, the planner would have no statistics, and the write-ahead log would grow until the server stops.
 * `checkSpace` throws while the disk is too full to write. An engine in memory has no directory. Returns a function that ends it.
 */
export function keepUp(db: Db, checkSpace: () => void, directory: string | undefined, logger?: Logger): () => void {
  let isOver = false;
  /** What is under way when the database closes fails too, which nobody needs to know. */
  const warn = (message: string) => (error: unknown) => {
    if (!isOver) logger?.warn({ err: error }, message);
  };
  const warnOfLog = warn('could not shorten the write-ahead log of the database; will retry in a minute');
  const warnOfVacuum = warn('could not vacuum the database; will retry in an hour');
  const checkpoints = setInterval(() => void shortenLog(db, checkSpace, directory).catch(warnOfLog), checkpointEveryMs).unref();
  let timer = setTimeout(next, firstMs).unref();
  function next(): void {
    timer = setTimeout(next, everyMs).unref();
    vacuum(db, checkSpace).catch(warnOfVacuum);
  }
  return () => {
    isOver = true;
    clearInterval(checkpoints);
    clearTimeout(timer);
  };
}

/**
 * The engine does not wait until the system has its writes on disk. After a checkpoint it discards the part of the log that could
 * repair its files, so a power failure shortly after could leave them broken. So we flush the files before the checkpoint, which
 * leaves little to write, and flush that right after it.
 */
async function shortenLog(db: Db, checkSpace: () => void, directory: string | undefined): Promise<void> {
  checkSpace();
  const { rows } = await sql<{ isLong: boolean }>`
    select pg_current_wal_lsn() - redo_lsn > ${longLogBytes} as "isLong" from pg_control_checkpoint()`.execute(db);
  if (!rows[0]?.isLong) return;
  if (directory !== undefined) await flushFiles(directory);
  await sql`checkpoint`.execute(db);
  if (directory !== undefined) await flushFiles(directory);
}

async function flushFiles(directory: string): Promise<void> {
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    // Undefined if the file was removed meanwhile.
    const file = await open(join(entry.parentPath, entry.name), 'r+').catch(() => undefined);
    await file?.sync().finally(() => file.close());
  }
}

/** One statement per table, so that other statements run in between. */
export async function vacuum(db: Db, checkSpace: () => void, small = smallBytes): Promise<void> {
  const { rows } = await sql<{ name: string; isOurs: boolean; isWorthIt: boolean; isOld: boolean }>`
    select format('%I.%I', n.nspname, c.relname) as name, n.nspname = 'public' as "isOurs", age(c.relfrozenxid) > ${oldAge} as "isOld",
      pg_total_relation_size(c.oid) < ${small}
        or pg_stat_get_dead_tuples(c.oid) > ${manyDead}::float8 * pg_stat_get_live_tuples(c.oid) as "isWorthIt"
    from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.relkind = 'r'`.execute(db);
  for (const { name, isOurs, isWorthIt, isOld } of rows) {
    checkSpace();
    if (isOld || (isOurs && isWorthIt)) await sql`vacuum (analyze) ${sql.raw(name)}`.execute(db);
    else if (isOurs) await sql`analyze ${sql.raw(name)}`.execute(db);
  }
}
