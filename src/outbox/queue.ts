import { sql } from 'kysely';
import type { Db } from '../database/database.ts';
import { uuidList } from '../database/id-list.ts';
import { longestWaitsMs } from './schedule.ts';

/**
 * From when on to look for events and deliveries that wait. While somebody's transaction is open for long, as that of a backup
 * is, the indexes of both keep everything that was sent since it began: a look at all of it would cost more with every event.
 */
export interface Since {
  events: Date;
  deliveries: Date;
}

export const everything: Since = { events: new Date(0), deliveries: new Date(0) };

/**
 * Whether events wait to become deliveries, and whether deliveries wait for their time. Of next to no cost, unlike what would be
 * done with them. In the order of their indexes: an empty answer is found in the index, not by reading the table.
 */
export async function readWaiting(db: Db, since: Since): Promise<{ events: boolean; deliveries: boolean }> {
  const { rows } = await sql<{ events: boolean; deliveries: boolean }>`select
    (select 1 from webhook_events where not fanned_out and created_at >= ${since.events} order by created_at limit 1) is not null as events,
    (select 1 from deliveries where due_at >= ${since.deliveries} order by lane, due_at limit 1) is not null as deliveries`.execute(db);
  return rows[0] ?? { events: false, deliveries: false };
}

/** A delivery that this process holds, with what it takes to send it. */
export interface Claimed {
  id: string;
  lane: string;
  org_id: number;
  type: string;
  body: string;
  attempt_count: number;
  /** A test or a resend: outside of the schedule, never counted. */
  manual: boolean;
  endpoint_id: number | null;
  url: string;
  enabled: boolean;
  secret_ciphertext: string | null;
  previous_secret_ciphertext: string | null;
  previous_secret_until: Date | null;
}

/** What a lane holds here already. `troubled`: it fails or hangs, so one slot must do. */
export interface LaneLoad {
  lane: string;
  running: number;
  troubled: boolean;
}

/** How many slots of each kind an organization holds here already. */
export interface OrgLoad {
  org_id: number;
  healthy: number;
  troubled: number;
}

export interface Slots {
  /** At once for one destination that answers well. */
  perLane: number;
  /** Free ones for lanes that answer well, and for those in trouble: the latter can never take the former's. */
  healthy: number;
  troubled: number;
}

/** Who claims deliveries, which of them may be claimed, and how many. */
export interface Claim {
  processId: string;
  now: Date;
  /** Only those that have been due since then are looked at. */
  since: Date;
  leaseUntil: Date;
  slots: Slots;
  /** What runs here already. It is not claimed again, although a clock that jumped, or a process that was halted, outlived its lease. */
  running: readonly string[];
  lanes: readonly LaneLoad[];
  organizations: readonly OrgLoad[];
}

/**
 * Takes due deliveries. Organizations take turns, counting what of theirs runs here already, so that many slow destinations of
 * one delay nobody else's; and of each, every lane's first goes before any lane's second, so that a long queue of one destination
 * delays no other. A lane to another gateway gets one at a time across all processes, so that a message arrives before its reply. Lanes are
 * found by skipping through the index, which costs by the number of destinations, not of deliveries.
 *
 * `place` is the delivery's in its lane, counted after those that run here already: a lane in trouble gets one place, so that
 * it holds no more of the slots than it takes to see whether it is well again. A delivery that another process has locked in
 * between is passed over, and one that it has claimed is no longer due.
 *
 * `oldest` is the time of the first that waited or was claimed, null when there was none.
 */
export async function claimDeliveries(db: Db, claim: Claim): Promise<{ claimed: Claimed[]; oldest: Date | null }> {
  const { processId, now, since, leaseUntil, slots, running, lanes, organizations } = claim;
  const { rows } = await sql<(Claimed | { id: null }) & { oldest: Date | null }>`
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
      select id, resend_requested or is_test or state <> 'pending' as manual from deliveries
      where id in (select id from chosen) and due_at <= ${now} and id not in ${uuidList(running)} for update skip locked
    ), claimed as (
      update deliveries d set due_at = ${leaseUntil}, claimed_by = ${processId}, resend_requested = false
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
 * While an attempt runs its delivery stays ours; a process that falls silent loses it when the lease ends. One that is just
 * being written is skipped: to wait for it while holding others would be a deadlock with the results of several.
 */
export async function renewClaims(db: Db, processId: string, leaseUntil: Date, ids: readonly string[]): Promise<void> {
  await sql`update deliveries set due_at = ${leaseUntil} where id in (
    select id from deliveries where claimed_by = ${processId} and id in ${uuidList(ids)} for update skip locked)`.execute(db);
}

/**
 * Makes due what waits longer than any schedule lets it: it was put off by a clock that has been set back since. A claim
 * is left alone, since the lease of a process whose clock is ahead is a lease.
 */
export async function bringForward(db: Db, now: Date): Promise<void> {
  const latest = JSON.stringify(longestWaitsMs.map((wait) => new Date(now.getTime() + wait).toISOString()));
  await sql`
    update deliveries set due_at = ${now}, next_attempt_at = case when state = 'pending' then ${now} else next_attempt_at end
    where claimed_by is null
      and due_at > coalesce(${latest}::json ->> attempt_count, ${latest}::json ->> 0)::timestamptz`.execute(db);
}

/** Gives back what this process holds, for any to take at once. */
export async function releaseClaims(db: Db, processId: string, now: Date): Promise<void> {
  await sql`update deliveries set due_at = ${now}, claimed_by = null where claimed_by = ${processId}`.execute(db);
}

/** On the embedded database nobody else can hold a delivery: a start takes up at once what the last process left. */
export async function releaseAllClaims(db: Db, now: Date): Promise<void> {
  await sql`update deliveries set due_at = ${now}, claimed_by = null where claimed_by is not null`.execute(db);
}

/** Puts back what may not go now: its endpoint was disabled in between. */
export async function parkDelivery(db: Db, processId: string, id: string): Promise<void> {
  await sql`update deliveries set due_at = null, claimed_by = null where id = ${id} and claimed_by = ${processId}`.execute(db);
}
