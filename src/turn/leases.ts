import { sql } from 'kysely';
import { type Database, refusesWrites } from '../database/database.ts';
import { idList } from '../database/id-list.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Runner } from './runner.ts';

export interface Leases {
  /** Gives up what this process still holds, so that another need not wait for the lease to run out. */
  release(): Promise<void>;
}

interface LeaseParts {
  holderName(): Promise<string>;
  leaseMs: number;
  logger: Logger;
  /** The database has answered. */
  onBeat(): void;
  /** It takes no writes, or has not answered for a while: turns that were left to be recovered are not, until it does. */
  onStranded(reason: unknown): void;
  /** False while the process drains: what it took up now it would cut off when its time is up. */
  mayClaim?(): boolean;
  /** How long the database may be silent before anybody is told: within 10 s a restart or a failover is over, and turns go on. */
  patienceMs?: number;
}

const page = 100;
/**
 * The index of running turns keeps those that have ended until it is vacuumed, which waits for the oldest transaction: a backup of
 * an hour is enough. So what ran out long ago, which no other look has left, is looked for this often, and after a failure.
 */
const longAgoMs = 60_000;

/**
 * Keeps this process's turns its own while it lives, lets go of those that another took over in a silence of ours, and takes
 * up those of processes that fell silent. On the embedded database nobody else can hold a turn, so a start takes up at once
 * what the last process left.
 */
export async function holdLeases(database: Database, runner: Runner, parts: LeaseParts): Promise<Leases> {
  const { holderName, leaseMs, logger, onBeat, onStranded, mayClaim = () => true, patienceMs = 10_000 } = parts;
  if (database.engine === 'pglite') await claim(database, runner, await holderName(), leaseMs, 'of others');
  let renewing: Promise<void> | undefined;
  let looking: Promise<void> | undefined;
  const timer = setInterval(
    () => {
      // By itself: a look may have to wait for a connection, or for rows, longer than a lease lasts.
      renewing ??= renewOurs().finally(() => {
        renewing = undefined;
      });
      looking ??= lookForExpired().finally(() => {
        looking = undefined;
      });
    },
    Math.max(100, leaseMs / 4),
  );
  let answeredAt = performance.now();
  let hasFailed = false;
  let isReleased = false;
  let lookedAtAllAt = Number.NEGATIVE_INFINITY;
  return {
    async release() {
      isReleased = true;
      clearInterval(timer);
      // What still runs could claim again what is released here.
      await Promise.all([renewing, looking]);
      try {
        await sql`update turns set lease_until = now() where id in (
          select id from turns where process_id = ${await holderName()} and state = 'running' for update skip locked)`.execute(database.db);
      } catch (error) {
        // A database that is gone keeps nobody from stopping: the leases run out by themselves.
        logger.warn({ err: error }, 'could not release leases');
      }
    },
  };

  async function renewOurs(): Promise<void> {
    const ids = [...runner.running.keys()];
    if (ids.length === 0) return;
    try {
      const renewed = await renew(database, await holderName(), leaseMs, ids);
      // The notice of an interrupt may have been lost, and what the turn waits for may take long.
      for (const { id, interrupted } of renewed) if (interrupted) runner.interrupt(id);
      if (renewed.length < ids.length) for (const id of await heldElsewhere(database, await holderName(), ids)) runner.lose(id);
    } catch (error) {
      warn(error);
    }
  }

  async function lookForExpired(): Promise<void> {
    try {
      const holder = await holderName();
      if (isReleased) return;
      const all = hasFailed || performance.now() - lookedAtAllAt > longAgoMs;
      const claimed = mayClaim() ? await claim(database, runner, holder, leaseMs, all ? 'expired' : 'lately expired') : 0;
      if (claimed === page) lookedAtAllAt = Number.NEGATIVE_INFINITY;
      else if (all) lookedAtAllAt = performance.now();
      if (hasFailed) logger.warn({ ms: Math.round(performance.now() - answeredAt) }, 'the database takes writes again');
      hasFailed = false;
      answeredAt = performance.now();
      onBeat();
    } catch (error) {
      hasFailed = true;
      if (refusesWrites(error) || performance.now() - answeredAt > patienceMs) onStranded(error);
      warn(error);
    }
  }

  function warn(error: unknown): void {
    if (!isReleased) logger.warn({ err: error }, 'could not renew leases');
  }
}

interface Renewed {
  id: string;
  interrupted: boolean;
}

/**
 * Skips those that are being written: a batch of the log locks turns in an order of its own, so that waiting for one of them
 * while holding others is a deadlock, which costs everyone a second. They are renewed at the next beat.
 */
async function renew(database: Database, holder: string, leaseMs: number, ids: string[]): Promise<Renewed[]> {
  return database.urgently(sql<Renewed>`update turns set lease_until = now() + ${leaseMs} * interval '1 millisecond'
    where id in (
      select id from turns where id in ${idList(ids)} and process_id = ${holder} for update skip locked)
    returning id, interrupted`);
}

/** Of these turns, those that another process runs now. One that has ended or paused is held by nobody. */
async function heldElsewhere(database: Database, holder: string, ids: string[]): Promise<string[]> {
  const rows = await database.urgently(sql<{ id: string }>`select id from turns
    where id in ${idList(ids)} and process_id <> ${holder}`);
  return rows.map((row) => row.id);
}

/** For a process that was halted and cannot know what happened meanwhile. */
export async function isHeld(database: Database, holder: string, turnId: string): Promise<boolean> {
  const row = await database.db
    .selectFrom('turns')
    .select('id')
    .where('id', '=', turnId)
    .where('process_id', '=', holder)
    .executeTakeFirst();
  return row !== undefined;
}

/** Skips what another process is claiming at the same moment. Returns how many it took. */
async function claim(
  database: Database,
  runner: Runner,
  holder: string,
  leaseMs: number,
  which: 'expired' | 'lately expired' | 'of others',
): Promise<number> {
  const wanted = {
    expired: sql`lease_until < now()`,
    'lately expired': sql`lease_until < now() and lease_until > now() - ${longAgoMs} * interval '1 millisecond'`,
    'of others': sql`(lease_until < now() or process_id <> ${holder})`,
  };
  const { rows } = await sql<{ id: string; session_id: string; org_id: number; interrupted: boolean }>`
    update turns set process_id = ${holder}, lease_until = now() + ${leaseMs} * interval '1 millisecond'
    where id in (
      select id from turns where state = 'running' and ${wanted[which]}
      order by lease_until limit ${page} for update skip locked)
    returning id, session_id, org_id, interrupted`.execute(database.db);
  if (rows.length === 0) return 0;
  // Whatever was being written to these sessions is there when they have been locked; what comes later finds them claimed.
  const sessions = idList(rows.map((row) => row.session_id));
  await sql`select 1 from sessions where id in ${sessions} order by id for update`.execute(database.db);
  // It may have been the turn's end.
  const ids = idList(rows.map((row) => row.id));
  const { rows: ours } = await sql<{ id: string }>`select id from turns where id in ${ids} and process_id = ${holder}`.execute(database.db);
  const left = new Set(ours.map(({ id }) => id));
  for (const row of rows) {
    if (!left.has(row.id) || runner.running.has(row.id)) continue;
    runner.begin({ turn: row.id, session: row.session_id, org: row.org_id }, [], { recovered: true });
    if (row.interrupted) runner.interrupt(row.id);
  }
  return rows.length;
}
