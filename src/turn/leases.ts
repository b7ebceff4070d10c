import { sql } from 'kysely';
import { type Database, refusesWrites } from '../database/database.ts';
import { idList } from '../database/id-list.ts';
import { isNameOf } from '../session/holder-name.ts';
import type { Logger } from '../telemetry/logger.ts';
import { SharedWork } from '../work/shared-work.ts';
import type { Hold, Runner } from './runner.ts';

export interface Leases {
  /** Gives up the leases of this process, so that another takes over its turns without waiting for them to run out. */
  release(): Promise<void>;
  /** False while the database does not answer or takes no writes, as the last look for abandoned turns found. */
  areKept(): boolean;
}

interface LeaseParts {
  holderName(): Promise<string>;
  leaseMs: number;
  logger: Logger;
  /** Called each time the database has answered. */
  onBeat(): void;
  /** Called when the database takes no writes, or has not answered for a while: until it does, nobody takes over abandoned turns. */
  onStranded(reason: unknown): void;
  /** False while the process drains: it would have to let go of a turn that it took over now. */
  mayClaim?(): boolean;
  /** How long the database may be silent before turns count as stranded: a restart or a failover is over within 10 s. */
  patienceMs?: number;
}

const maxClaimed = 100;
/**
 * The index of running turns keeps its entries of ended turns until a vacuum, and a vacuum waits for the oldest open transaction,
 * such as a backup that takes an hour. So most looks are only at leases that ran out within this time, which passes over those entries. One
 * look in this time, and each look after a failure, is at all leases.
 */
const recentMs = 60_000;

/**
 * Renews the leases of the turns that run here, lets go of turns that another process took over while this one was halted, and
 * takes over turns of processes that died. On the embedded database no other process can hold a turn, so a start takes over at once
 * whatever the last process left.
 */
export async function holdLeases(database: Database, runner: Runner, parts: LeaseParts): Promise<Leases> {
  const { holderName, leaseMs, logger, onBeat, onStranded, mayClaim = () => true, patienceMs = 10_000 } = parts;
  if (database.engine === 'pglite') while ((await claim(database, runner, await holderName(), parts, 'of others')) === maxClaimed);
  const beats = new SharedWork<void>();
  const timer = setInterval(
    () => {
      // Neither waits for the other: a look may wait for a connection, or for locked rows, longer than a lease lasts.
      void beats.run('renew', renewOurs);
      void beats.run('look', lookForExpired);
    },
    Math.max(100, leaseMs / 4),
  );
  let answeredAt = performance.now();
  let hasFailed = false;
  let isReleased = false;
  let lookedAtAllAt = Number.NEGATIVE_INFINITY;
  return {
    areKept: () => !hasFailed,
    async release() {
      isReleased = true;
      clearInterval(timer);
      // A look that is still under way could claim again what is released here.
      await beats.ended();
      try {
        await sql`update turns set lease_until = now() where id in (
          select id from turns where process_id = ${await holderName()} and state = 'running' for update skip locked)`.execute(database.db);
      } catch (error) {
        // The process can stop without the database: the leases run out by themselves.
        logger.warn({ err: error }, 'could not release leases');
      }
    },
  };

  async function renewOurs(): Promise<void> {
    const ids = [...runner.running.keys()];
    if (ids.length === 0) return;
    try {
      const renewed = await renew(database, await holderName(), leaseMs, ids);
      // The notice of an interrupt may have been lost, and the next commit point of the turn may be far away.
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
      const all = hasFailed || performance.now() - lookedAtAllAt > recentMs;
      const claimed = mayClaim() ? await claim(database, runner, holder, parts, all ? 'expired' : 'lately expired') : 0;
      if (claimed === maxClaimed) lookedAtAllAt = Number.NEGATIVE_INFINITY;
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
 * Skips turns whose row is locked, which are renewed at the next beat. A batch of the log locks turns in an order of its own, so
 * waiting here for one row while holding others could deadlock, which PostgreSQL resolves only after a second.
 */
async function renew(database: Database, holder: string, leaseMs: number, ids: string[]): Promise<Renewed[]> {
  return database.urgently(sql<Renewed>`update turns set lease_until = now() + ${leaseMs} * interval '1 millisecond'
    where id in (
      select id from turns where id in ${idList(ids)} and process_id = ${holder} for update skip locked)
    returning id, interrupted`);
}

/** Those of these turns that another process runs now. A turn that has ended or paused is held by nobody. */
async function heldElsewhere(database: Database, holder: string, ids: string[]): Promise<string[]> {
  const rows = await database.urgently(sql<{ id: string }>`select id from turns
    where id in ${idList(ids)} and process_id <> ${holder}`);
  return rows.map((row) => row.id);
}

/**
 * Who holds the turn. If this process was halted for longer than a lease, another may have taken it over. Any name of this process
 * counts: it may change while we ask.
 */
export async function holdOn(database: Database, processId: string, turnId: string): Promise<Hold> {
  const row = await database.db.selectFrom('turns').select(['state', 'process_id']).where('id', '=', turnId).executeTakeFirst();
  if (row === undefined || row.state === 'ended') return 'ended';
  return isNameOf(processId, row.process_id) ? 'ours' : 'lost';
}

/**
 * Takes turns over and runs them, except those that another process is claiming at the same moment, and those that still run here
 * although another process had them: such a run knows nothing of what that one wrote. Returns how many it claimed.
 */
async function claim(
  database: Database,
  runner: Runner,
  holder: string,
  { holderName, leaseMs }: Pick<LeaseParts, 'holderName' | 'leaseMs'>,
  which: 'expired' | 'lately expired' | 'of others',
): Promise<number> {
  const wanted = {
    expired: sql`lease_until < now()`,
    'lately expired': sql`lease_until < now() and lease_until > now() - ${recentMs} * interval '1 millisecond'`,
    'of others': sql`process_id is distinct from ${holder}`,
  };
  const { rows } = await sql<{ id: string; session_id: string; org_id: number; interrupted: boolean }>`
    update turns set process_id = ${holder}, lease_until = now() + ${leaseMs} * interval '1 millisecond'
    where id in (
      select id from turns where state = 'running' and ${wanted[which]}
        and (process_id = ${holder} or id not in ${idList([...runner.running.keys()])})
      order by lease_until limit ${maxClaimed} for update skip locked)
    returning id, session_id, org_id, interrupted`.execute(database.db);
  if (rows.length === 0) return 0;
  // Locking the sessions waits for writes of the old holder that are under way. Its later ones are refused, since the turns are claimed.
  const sessions = idList(rows.map((row) => row.session_id));
  await sql`select 1 from sessions where id in ${sessions} order by id for update`.execute(database.db);
  // One of those writes may have ended its turn.
  const ids = idList(rows.map((row) => row.id));
  const { rows: ours } = await sql<{ id: string }>`select id from turns where id in ${ids} and process_id = ${holder}`.execute(database.db);
  const stillOurs = new Set(ours.map(({ id }) => id));
  // The name has changed, so the answer to a write of this process was lost. If one of these turns was its own, that write may still
  // arrive under the old name, after the log was read. They are claimed again, under the new name, when this lease has run out.
  if ((await holderName()) !== holder) return rows.length;
  for (const row of rows) {
    if (!stillOurs.has(row.id) || runner.running.has(row.id)) continue;
    runner.begin({ turn: row.id, session: row.session_id, org: row.org_id }, [], { recovered: true });
    if (row.interrupted) runner.interrupt(row.id);
  }
  return rows.length;
}
