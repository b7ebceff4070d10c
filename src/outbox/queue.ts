import { sql } from 'kysely';
import type { Db } from '../database/database.ts';
import { uuidList } from '../database/id-list.ts';
import { longestWaitsMs } from './schedule.ts';

/**
 * The times from which a scan looks for waiting events and deliveries. It does not look at everything each time, because while
 * a transaction stays open for long, such as that of a backup, the indexes keep the entries of all that was sent since it began,
 * and every scan would have to pass them.
 */
export interface Since {
  events: Date;
  deliveries: Date;
}

export const fromTheBeginning: Since = { events: new Date(0), deliveries: new Date(0) };

/**
 * Whether events wait to become deliveries, and whether deliveries are scheduled. It costs far less than taking them would. The
 * order is that of an index, so that the planner finds out from the index that there are none, instead of reading the table.
 */
export async function readWaiting(db: Db, since: Since): Promise<{ events: boolean; deliveries: boolean }> {
  const { rows } = await sql<{ events: boolean; deliveries: boolean }>`select
    (select 1 from webhook_events where not fanned_out and created_at >= ${since.events} order by created_at limit 1) is not null as events,
    (select 1 from deliveries where due_at >= ${since.deliveries} order by lane, due_at limit 1) is not null as deliveries`.execute(db);
  return rows[0] ?? { events: false, deliveries: false };
}

/** A delivery that this process has claimed, with all that is needed to send it. */
export interface ClaimedDelivery {
  id: string;
  lane: string;
  org_id: number;
  type: string;
  body: string;
  attempt_count: number;
  /** A test or a resend: not part of the schedule, and its failure does not count against the endpoint. */
  manual: boolean;
  endpoint_id: number | null;
  url: string;
  enabled: boolean;
  secret_ciphertext: string | null;
  previous_secret_ciphertext: string | null;
  previous_secret_until: Date | null;
}

/** How many attempts to a lane this process is making, and whether the lane fails or hangs. */
export interface LaneLoad {
  lane: string;
  running: number;
  troubled: boolean;
}

/** How many slots of each kind an organization takes in this process. */
export interface OrgLoad {
  org_id: number;
  healthy: number;
  troubled: number;
}

export interface Slots {
  /** The most attempts at once to one lane that answers well. */
  perLane: number;
  /** Free slots for lanes that answer well. */
  healthy: number;
  /** Free slots for lanes that fail or hang. */
  troubled: number;
}

/** Who claims deliveries, which of them may be claimed, and how many. */
export interface ClaimOptions {
  processId: string;
  now: Date;
  /** Deliveries that were due before this time are not looked at. */
  since: Date;
  leaseUntil: Date;
  slots: Slots;
  /** Deliveries that this process is sending. They are not claimed again, even if a clock that jumped or a halt of the process ended their lease. */
  running: readonly string[];
  lanes: readonly LaneLoad[];
  organizations: readonly OrgLoad[];
}

/**
 * Claims due deliveries, until the lease ends. In which order:
 *
 * - Organizations take turns, and attempts that already run for them count, so that the slow destinations of one do not delay
 *   the deliveries of others.
 * - Within an organization, the first delivery of every lane goes before the second of any, so that the long queue of one
 *   destination does not delay the others. `place` is the position in the lane, counted after the attempts that already run.
 * - A troubled lane gets one place: enough to see whether it is well again.
 * - A lane to another gateway gets one place across all processes, so that a message arrives before the reply to it.
 *
 * The recursive query skips through the index from lane to lane, so that its cost grows with the number of destinations and not
 * of deliveries. A delivery that another process locks meanwhile is skipped; one that it has claimed is no longer due.
 *
 * `oldest` is the earliest time in the queue before this claim, null if the queue was empty.
 */
export async function claimDeliveries(db: Db, options: ClaimOptions): Promise<{ claimed: ClaimedDelivery[]; oldest: Date | null }> {
  const { processId, now, since, leaseUntil, slots, running, lanes, organizations } = options;
  const { rows } = await sql<(ClaimedDelivery | { id: null }) & { oldest: Date | null }>`
    with recursive lanes (lane, first_due_at) as (
      (select lane, due_at from deliveries where due_at >= ${since} order by lane, due_at limit 1)
      union all
      select next.lane, next.due_at from lanes l cross join lateral (
        select lane, due_at from deliveries where due_at >= ${since} and lane > l.lane order by lane, due_at limit 1
      ) next
    ), loads as (
      select * from json_to_recordset(${JSON.stringify(lanes)}::json) as l (lane text, running integer, troubled boolean)
    ), org_loads as (
      select * from json_to_recordset(${JSON.stringify(organizations)}::json) as o (org_id integer, healthy integer, troubled integer)
    ), waiting as (
      select d.id, d.org_id, d.due_at, case when l.lane like 'gateway %' then 1 else ${slots.perLane} end as places,
        coalesce(load.running, 0) + row_number() over (partition by l.lane order by d.due_at, d.position) as place,
        coalesce(load.troubled, false) or coalesce(e.consecutive_failures, 0) > 0 as troubled
      from lanes l
      left join loads load on load.lane = l.lane
      cross join lateral (
        select id, org_id, due_at, position, endpoint_id from deliveries
        where lane = l.lane and due_at between l.first_due_at and ${now} order by due_at, position
        limit least(${slots.perLane}::integer, greatest(4, ${slots.healthy + slots.troubled}::integer / (select count(*) from lanes)))
      ) d
      left join webhook_endpoints e on e.id = d.endpoint_id
      where l.lane not like 'gateway %' or not exists (
        select 1 from deliveries c where c.lane = l.lane and c.due_at > ${now} and c.claimed_by <> ${processId})
    ), in_turn as (
      select w.id, w.troubled, w.place, w.due_at, case when w.troubled then coalesce(o.troubled, 0) else coalesce(o.healthy, 0) end
        + row_number() over (partition by w.org_id, w.troubled order by w.place, w.due_at) as turn
      from waiting w left join org_loads o on o.org_id = w.org_id
      where w.place <= case when w.troubled then 1 else w.places end
    ), chosen as (
      (select id from in_turn where not troubled order by turn, place, due_at limit ${slots.healthy})
      union all
      (select id from in_turn where troubled order by turn, place, due_at limit ${slots.troubled})
    ), locked as (
      select id, resend_requested or is_test or state <> 'pending' or claimed_manually as manual from deliveries
      where id in (select id from chosen) and due_at <= ${now} and id not in ${uuidList(running)} for update skip locked
    ), claimed as (
      update deliveries d set due_at = ${leaseUntil}, claimed_by = ${processId}, resend_requested = false, claimed_manually = locked.manual
      from locked where d.id = locked.id
      returning d.id, d.lane, d.org_id, d.type, d.body, d.attempt_count, locked.manual, d.endpoint_id, d.gateway_url
    )
    select c.id, c.lane, c.org_id, c.type, c.body, c.attempt_count, c.manual, c.endpoint_id, coalesce(e.url, c.gateway_url) as url,
      coalesce(e.enabled, true) as enabled, e.secret_ciphertext, e.previous_secret_ciphertext, e.previous_secret_until, o.oldest
    from (select min(first_due_at) as oldest from lanes) o
    left join claimed c on true left join webhook_endpoints e on e.id = c.endpoint_id`.execute(db);
  return { claimed: rows.filter((row) => row.id !== null), oldest: rows[0]?.oldest ?? null };
}

/**
 * Extends the lease of deliveries while their attempts run. A row that is locked, because its outcome is being recorded, is
 * skipped: waiting for it while holding other rows could deadlock with a batch of outcomes.
 */
export async function renewClaims(db: Db, processId: string, leaseUntil: Date, ids: readonly string[]): Promise<void> {
  await sql`update deliveries set due_at = ${leaseUntil} where id in (
    select id from deliveries where claimed_by = ${processId} and id in ${uuidList(ids)} for update skip locked)`.execute(db);
}

/**
 * Makes deliveries due that wait longer than the schedule ever lets them: they were scheduled by a clock that has been set
 * back since. Claims are left alone: the process that holds them may only have a clock that is ahead.
 */
export async function bringForward(db: Db, now: Date): Promise<void> {
  const latest = JSON.stringify(longestWaitsMs.map((wait) => new Date(now.getTime() + wait).toISOString()));
  await sql`
    update deliveries set due_at = ${now}, next_attempt_at = case when state = 'pending' then ${now} else next_attempt_at end
    where claimed_by is null
      and due_at > coalesce(${latest}::json ->> attempt_count, ${latest}::json ->> 0)::timestamptz`.execute(db);
}

/** Gives up the claims of this process, so that others can take the deliveries at once. */
export async function releaseClaims(db: Db, processId: string, now: Date): Promise<void> {
  await sql`update deliveries set ${released(now)} where claimed_by = ${processId}`.execute(db);
}

/** For the start on the embedded database, which one process uses at a time: every claim is from a process that has ended. */
export async function releaseAllClaims(db: Db, now: Date): Promise<void> {
  await sql`update deliveries set ${released(now)} where claimed_by is not null`.execute(db);
}

/** What was to be sent again still is: also to a disabled endpoint, and without counting as a failure. */
function released(now: Date) {
  return sql`due_at = ${now}, claimed_by = null, resend_requested = resend_requested or claimed_manually, claimed_manually = false`;
}
