import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { sql } from 'kysely';
import type { Db } from './database.ts';

const firstMs = 10 * 60_000;
const everyMs = 60 * 60_000;
/** A statement of the embedded engine holds up all others: in a larger table, one that looks at all of it would for seconds. */
const smallBytes = 256 * 1024 * 1024;
/** Transactions after which a table is vacuumed however large it is. PostgreSQL stops after two thousand million. */
const oldAge = 100_000_000;
const checkpointEveryMs = 60_000;
/** Of the engine's own log. A start that follows a `kill -9` reads all since the last checkpoint again, 30 MiB a second. */
const longLogBytes = 128 * 1024 * 1024;

/**
 * PostgreSQL's own upkeep runs in processes that the embedded engine does not have: what updates leave behind would stay for good,
 * in indexes above all, its planner would know nothing of the tables, and its log would grow until the server is stopped. `checkSpace`
 * throws while the disk is too full to write. An engine in memory has no directory. Returns what ends it.
 */
export function keepUp(db: Db, checkSpace: () => void, directory: string | undefined): () => void {
  const checkpoints = setInterval(() => void shortenLog(db, checkSpace, directory).catch(() => {}), checkpointEveryMs).unref();
  let timer = setTimeout(next, firstMs).unref();
  function next(): void {
    timer = setTimeout(next, everyMs).unref();
    // What cannot be done now may be possible in an hour.
    vacuum(db, checkSpace).catch(() => {});
  }
  return () => {
    clearInterval(checkpoints);
    clearTimeout(timer);
  };
}

/**
 * The engine takes what it has written for durable, which it is once the system has it on its disk. In between, a power failure may
 * leave files without the part of the log that would mend them: so most is brought there before, and the rest at once.
 */
async function shortenLog(db: Db, checkSpace: () => void, directory: string | undefined): Promise<void> {
  checkSpace();
  const { rows } = await sql<{ isLong: boolean }>`
    select pg_current_wal_lsn() - redo_lsn > ${longLogBytes} as "isLong" from pg_control_checkpoint()`.execute(db);
  if (!rows[0]?.isLong) return;
  if (directory !== undefined) await bringToDisk(directory);
  await sql`checkpoint`.execute(db);
  if (directory !== undefined) await bringToDisk(directory);
}

async function bringToDisk(directory: string): Promise<void> {
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    // One that was removed meanwhile needs nothing.
    const file = await open(join(entry.parentPath, entry.name), 'r+').catch(() => undefined);
    await file?.sync().finally(() => file.close());
  }
}

/** One table after another, so that others get in between. */
export async function vacuum(db: Db, checkSpace: () => void): Promise<void> {
  const { rows } = await sql<{ name: string; isOurs: boolean; isSmall: boolean; isOld: boolean }>`
    select format('%I.%I', n.nspname, c.relname) as name, n.nspname = 'public' as "isOurs",
      pg_total_relation_size(c.oid) < ${smallBytes} as "isSmall", age(c.relfrozenxid) > ${oldAge} as "isOld"
    from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.relkind = 'r'`.execute(db);
  for (const { name, isOurs, isSmall, isOld } of rows) {
    checkSpace();
    if (isOld || (isOurs && isSmall)) await sql`vacuum (analyze) ${sql.raw(name)}`.execute(db);
    else if (isOurs) await sql`analyze ${sql.raw(name)}`.execute(db);
  }
}
