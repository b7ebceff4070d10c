import { sql } from 'kysely';
import type { Db } from '../database/database.ts';
import { uuidList } from '../database/id-list.ts';
import { mostAttempts, notifyCouriers } from './deliveries.ts';
import { lockEndpoint } from './endpoint-state.ts';
import { wants } from './fan-out.ts';
import { insertDeliveries, newDelivery } from './new-deliveries.ts';

const pageLength = 500;

/**
 * Sends an endpoint what it missed in a time range: deliveries that were given up, on a new schedule, and events that were
 * never sent to it, because it was disabled or had not subscribed to them. What was delivered, is still being tried, or was tried
 * `mostAttempts` times is left alone. Returns how many deliveries that makes, or undefined when the org has no such endpoint.
 */
export async function recoverRange(
  db: Db,
  organization: { id: number; slug: string },
  endpointId: number,
  range: { from: Date; to: Date },
  now: Date,
): Promise<number | undefined> {
  let recovered = 0;
  // In pages, each in a transaction of its own, so that a wide range does not block others.
  for (let after = { at: range.from.toISOString(), id: '00000000-0000-0000-0000-000000000000' }; ; ) {
    const { rows } = await sql<{ id: string; type: string; data: unknown; created_at: Date; at: string }>`
      select id, type, data, created_at, created_at::text as at from webhook_events
      where org_id = ${organization.id} and (created_at, id) > (${after.at}::timestamptz, ${after.id}::uuid)
        and created_at <= ${range.to}
      order by created_at, id limit ${pageLength}`.execute(db);
    const sent = await db.transaction().execute(async (transaction) => {
      const endpoint = await lockEndpoint(transaction, organization.id, endpointId);
      if (endpoint === undefined) return undefined;
      const wanted = rows.filter((row) => wants(endpoint.event_types, row.type));
      const receiver = { ...endpoint, slug: organization.slug };
      const ids = wanted.map((event) => event.id);
      const revived = await revive(transaction, endpoint, ids, now);
      const fresh = wanted.map(({ id, type, data, created_at: createdAt }) => newDelivery(id, receiver, { type, createdAt, data }));
      const added = await insertDeliveries(transaction, fresh, now, endpoint.enabled);
      await notifyCouriers(transaction);
      return revived + added;
    });
    if (sent === undefined) return undefined;
    recovered += sent;
    const last = rows.at(-1);
    if (last === undefined || rows.length < pageLength) return recovered;
    after = last;
  }
}

async function revive(transaction: Db, endpoint: { id: number; enabled: boolean }, eventIds: string[], now: Date): Promise<number> {
  const { rows } = await sql`
    update deliveries set state = 'pending', attempt_count = 0, next_attempt_at = ${now},
      due_at = case when ${endpoint.enabled} or resend_requested then ${now}::timestamptz end
    where endpoint_id = ${endpoint.id} and state = 'failed' and claimed_by is null
      and event_id in ${uuidList(eventIds)}
      and (select count(*) from delivery_attempts where delivery_id = deliveries.id) < ${mostAttempts}
    returning id`.execute(transaction);
  return rows.length;
}
