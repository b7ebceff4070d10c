import { type RawBuilder, sql } from 'kysely';
import type { Db } from '../database/database.ts';
import { uuidList } from '../database/id-list.ts';
import { insertDeliveries, newDelivery } from './new-deliveries.ts';

/** Per transaction, because until it commits no other events are taken and, on the embedded database, no other statement runs. */
const limits = { events: 200, deliveries: 1_000 };
/**
 * Organizations take turns among this many of the oldest events, so that one with hundreds of endpoints does not delay the others. If so
 * many wait, all of them may be of one organization: then the oldest events of every organization with an endpoint are added.
 */
const mostInTurns = 2_000;
/** How many of each: few, because all are sorted, for a transaction that takes only `limits.events`. */
const mostOfEach = 10;

interface EventRow {
  id: string;
  org_id: number;
  type: string;
  data: unknown;
  created_at: Date;
  /** The organization's first event has 1, its second 2. */
  turn: number;
  waiting: number;
}

/** Makes a delivery of each waiting event for each endpoint that subscribed to it. Returns false when more events may be waiting. */
export async function fanOut(db: Db, now: Date, since: Date, most = limits, inTurns = mostInTurns): Promise<boolean> {
  return db.transaction().execute(async (transaction) => {
    const isWaiting = sql`not fanned_out and created_at >= ${since}`;
    const oldest = sql`select id, org_id, created_at from webhook_events where ${isWaiting} order by created_at, id limit ${inTurns}`;
    let events = await takeEvents(transaction, oldest, most.events);
    if (events.length === 0) return true;
    if (events.some(({ waiting }) => waiting >= inTurns)) {
      const ofEach = sql`select e.* from (select distinct org_id from webhook_endpoints where enabled) o cross join lateral
        (select id, org_id, created_at from webhook_events where org_id = o.org_id and ${isWaiting}
         order by created_at, id limit ${mostOfEach}) e`;
      events = await takeEvents(transaction, sql`(${oldest}) union (${ofEach})`, most.events);
    }
    const endpoints = await transaction
      .selectFrom('webhook_endpoints')
      .innerJoin('organizations', 'organizations.id', 'webhook_endpoints.org_id')
      .select(['webhook_endpoints.id', 'org_id', 'event_types', 'webhook_endpoints.created_at', 'organizations.slug'])
      .where('org_id', 'in', [...new Set(events.map((event) => event.org_id))])
      .where('enabled', '=', true)
      // Waits for the deletion of an endpoint to commit; its deliveries could not be inserted.
      .forKeyShare('webhook_endpoints')
      .execute();
    const endpointsOf = Map.groupBy(endpoints, (endpoint) => endpoint.org_id);
    const fresh: ReturnType<typeof newDelivery>[] = [];
    const taken: string[] = [];
    // Whose events go to few endpoints comes first: one event can fill the transaction, and there may always be another.
    const countOf = ({ org_id: orgId }: EventRow) => endpointsOf.get(orgId)?.length ?? 0;
    const inTurn = events.toSorted((left, right) => left.turn - right.turn || countOf(left) - countOf(right));
    for (const { id, org_id: orgId, type, data, created_at: createdAt } of inTurn) {
      if (fresh.length >= most.deliveries) break;
      taken.push(id);
      for (const endpoint of endpointsOf.get(orgId) ?? []) {
        // An endpoint gets no events from before it was made. If it was made in the future, the clock was set back, and the times say nothing.
        const isOlder = endpoint.created_at > createdAt && endpoint.created_at <= now;
        if (wants(endpoint.event_types, type) && !isOlder) fresh.push(newDelivery(id, endpoint, { type, createdAt, data }));
      }
    }
    await insertDeliveries(transaction, fresh, now);
    await sql`update webhook_events set fanned_out = true where id in ${uuidList(taken)}`.execute(transaction);
    return taken.length < most.events && taken.length === events.length;
  });
}

/** Locks the first of the candidates, of which organizations take turns. Each says how many candidates there are. */
async function takeEvents(transaction: Db, candidates: RawBuilder<unknown>, limit: number): Promise<EventRow[]> {
  const { rows } = await sql<EventRow>`
    select e.id, e.org_id, e.type, e.data, e.created_at, chosen.turn, chosen.waiting from (
      select id, (row_number() over (partition by org_id order by created_at, id))::integer as turn, (count(*) over ())::integer as waiting
      from (${candidates}) as candidates
      order by turn, created_at, id limit ${limit}) as chosen
    join webhook_events e on e.id = chosen.id and not e.fanned_out
    order by turn, created_at, e.id for update of e skip locked`.execute(transaction);
  return rows;
}

export function wants(subscribed: readonly string[], type: string): boolean {
  return subscribed.length === 0 || subscribed.includes(type);
}
