import { type Selectable, sql } from 'kysely';
import type { Db } from '../database/database.ts';
import type { DeliveryState } from '../database/outbox-tables.ts';
import type { Schema } from '../database/schema.ts';
import { ServiceError } from '../errors.ts';
import { lockEndpoint } from './endpoint-state.ts';
import { testData } from './event-types.ts';
import { insertDeliveries, newDelivery } from './new-deliveries.ts';

/** One event on its way to one endpoint, with every attempt made. */
export interface Delivery {
  id: string;
  position: number;
  endpointId: number;
  eventType: string;
  isTest: boolean;
  state: DeliveryState;
  body: string;
  nextAttemptAt: Date | undefined;
  createdAt: Date;
  deliveredAt: Date | undefined;
  attempts: DeliveryAttempt[];
}

export interface DeliveryAttempt {
  number: number;
  manual: boolean;
  startedAt: Date;
  durationMs: number;
  status: number | undefined;
  error: string | undefined;
  excerpt: string;
}

export interface DeliveryPage {
  limit: number;
  before: number | undefined;
  state: DeliveryState | undefined;
}

/** Where a page of the list ends: one with 20,000 attempts blocked the server for ten seconds and took half a gigabyte of memory. */
const pageAttempts = 1_000;

/** Newest first, fewer than `limit` where they have many attempts. */
export async function listDeliveries(
  db: Db,
  orgId: number,
  endpointId: number,
  page: DeliveryPage,
): Promise<{ deliveries: Delivery[]; hasMore: boolean }> {
  let query = db
    .selectFrom('deliveries')
    .selectAll()
    .select(({ selectFrom, fn }) =>
      selectFrom('delivery_attempts').whereRef('delivery_id', '=', 'deliveries.id').select(fn.countAll<number>().as('count')).as('made'),
    )
    .where('org_id', '=', orgId)
    .where('endpoint_id', '=', endpointId)
    .orderBy('position', 'desc')
    .limit(page.limit + 1);
  if (page.before !== undefined) query = query.where('position', '<', page.before);
  if (page.state !== undefined) query = query.where('state', '=', page.state);
  const found = await query.execute();
  let attempts = 0;
  const end = found.findIndex(({ made }, index) => {
    attempts += made ?? 0;
    return index === page.limit || (index > 0 && attempts > pageAttempts);
  });
  return { deliveries: await withAttempts(db, end === -1 ? found : found.slice(0, end)), hasMore: end !== -1 };
}

/** Only deliveries to webhook endpoints: those to other gateways are internal. */
export async function findDelivery(db: Db, orgId: number, id: string): Promise<Delivery | undefined> {
  const row = await db
    .selectFrom('deliveries')
    .selectAll()
    .where('org_id', '=', orgId)
    .where('id', '=', id)
    .where('endpoint_id', 'is not', null)
    .executeTakeFirst();
  return row && (await withAttempts(db, [row]))[0];
}

/** A delivery is read with all its attempts: 100,000 attempts at one took half a gigabyte whenever the page with it was read. */
export const mostAttempts = 100;

/**
 * Makes one more attempt now, with the same bytes, whatever the state of the delivery. A failure does not count against the endpoint. Throws
 * `conflict` if so many were made that the delivery takes no more.
 */
export async function resendDelivery(transaction: Db, orgId: number, id: string, now: Date): Promise<Delivery | undefined> {
  const { count } = await transaction
    .selectFrom('delivery_attempts')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('delivery_id', '=', id)
    .executeTakeFirstOrThrow();
  if (count >= mostAttempts) throw new ServiceError('conflict', `A delivery is not sent again after ${mostAttempts} attempts`);
  // If an attempt is under way, the resend follows when it ends.
  await sql`update deliveries set resend_requested = true, due_at = case when claimed_by is null then ${now} else due_at end
    where id = ${id} and org_id = ${orgId} and endpoint_id is not null`.execute(transaction);
  await notifyCouriers(transaction);
  return findDelivery(transaction, orgId, id);
}

/** Queues a delivery with example data. It is attempted once, even while the endpoint is disabled. */
export async function sendTest(
  transaction: Db,
  organization: { id: number; slug: string },
  endpointId: number,
  type: string,
  now: Date,
): Promise<Delivery | undefined> {
  const endpoint = await lockEndpoint(transaction, organization.id, endpointId);
  if (endpoint === undefined) return undefined;
  const fresh = newDelivery(null, { ...endpoint, slug: organization.slug }, { type, createdAt: now, data: testData(type) });
  await insertDeliveries(transaction, [fresh], now);
  await transaction.updateTable('deliveries').set({ is_test: true }).where('id', '=', fresh.id).execute();
  await notifyCouriers(transaction);
  return findDelivery(transaction, organization.id, fresh.id);
}

/** Tells the couriers of all processes, when the transaction commits, that something may be due. */
export async function notifyCouriers(transaction: Db): Promise<void> {
  await sql`select pg_notify('parley', '- deliveries')`.execute(transaction);
}

async function withAttempts(db: Db, rows: Selectable<Schema['deliveries']>[]): Promise<Delivery[]> {
  if (rows.length === 0) return [];
  const attempts = await db
    .selectFrom('delivery_attempts')
    .selectAll()
    .where(
      'delivery_id',
      'in',
      rows.map((row) => row.id),
    )
    .orderBy('number')
    .execute();
  const byDelivery = Map.groupBy(attempts, (attempt) => attempt.delivery_id);
  return rows.map((row) => ({
    id: row.id,
    position: row.position,
    endpointId: row.endpoint_id ?? 0,
    eventType: row.type,
    isTest: row.is_test,
    state: row.state,
    body: row.body,
    nextAttemptAt: row.next_attempt_at ?? undefined,
    createdAt: row.created_at,
    deliveredAt: row.delivered_at ?? undefined,
    attempts: (byDelivery.get(row.id) ?? []).map(attemptFrom),
  }));
}

function attemptFrom(row: Selectable<Schema['delivery_attempts']>): DeliveryAttempt {
  return {
    number: row.number,
    manual: row.manual,
    startedAt: row.started_at,
    durationMs: row.duration_ms,
    status: row.status ?? undefined,
    error: row.error ?? undefined,
    excerpt: row.response_excerpt,
  };
}
