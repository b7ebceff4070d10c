import { sql } from 'kysely';
import type { Db } from '../database/database.ts';
import { uuidList } from '../database/id-list.ts';
import type { ClaimedDelivery } from './queue.ts';

/** Per statement: an endpoint may have a million, which would take longer than a statement may. */
const batchLength = 1_000;

/**
 * Holds back deliveries until their endpoint is enabled: those that were claimed and turned out to be for a disabled one, and more that
 * are due to it. If it has been enabled meanwhile, the claimed ones are due as scheduled. One whose resend was asked for is due now.
 */
export async function holdBack(db: Db, processId: string, claimed: readonly ClaimedDelivery[], now: Date): Promise<void> {
  const endpointIds = [...new Set(claimed.flatMap((delivery) => delivery.endpoint_id ?? []))];
  const lanes = [...new Set(claimed.map((delivery) => delivery.lane))];
  await db.transaction().execute(async (transaction) => {
    // Locked before rows of deliveries, as by every writer. Until the commit none is enabled: what is resumed then includes these.
    await transaction.selectFrom('webhook_endpoints').select('id').where('id', 'in', endpointIds).orderBy('id').forShare().execute();
    const isDisabled = sql`endpoint_id in (select id from webhook_endpoints where id in (${sql.join(endpointIds)}) and not enabled)`;
    await sql`update deliveries set claimed_by = null,
        due_at = case when resend_requested then ${now}::timestamptz when not ${isDisabled} then next_attempt_at end
      where id in ${uuidList(claimed.map(({ id }) => id))} and claimed_by = ${processId}`.execute(transaction);
    await sql`update deliveries set due_at = null where id in (
      select id from deliveries where lane in (${sql.join(lanes)}) and due_at <= ${now} and ${isDisabled}
        and claimed_by is null and state = 'pending' and not is_test and not resend_requested
      limit ${batchLength} for update skip locked)`.execute(transaction);
  });
}

/** Makes deliveries due that were held back, if their endpoint is enabled. Returns whether there may be more. */
export async function resumeSome(db: Db, endpointId: number): Promise<boolean> {
  const { numAffectedRows } = await sql`update deliveries set due_at = next_attempt_at where id in (
    select id from deliveries where endpoint_id = ${endpointId} and state = 'pending' and due_at is null
      and exists (select 1 from webhook_endpoints where id = ${endpointId} and enabled)
    order by position limit ${batchLength} for update skip locked)`.execute(db);
  return Number(numAffectedRows ?? 0) === batchLength;
}

/** Enabled endpoints of which some deliveries are still held back: their process ended before it made all of them due. */
export async function listHalfResumed(db: Db): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`select id from webhook_endpoints e where enabled and exists (
    select 1 from deliveries where endpoint_id = e.id and state = 'pending' and due_at is null)`.execute(db);
  return rows.map(({ id }) => id);
}
