import type { Actor } from '../audit/record.ts';
import type { Db } from '../database/database.ts';
import { emitWebhook } from '../outbox/emit-webhook.ts';

/** Stores an invoice of the operator's billing, and sends the org a webhook event. Returns its id. */
export async function addInvoice(
  transaction: Db,
  actor: Actor,
  { amountCents, status }: { amountCents: number; status: 'paid' | 'payment_failed' },
): Promise<number> {
  const row = await transaction
    .insertInto('invoices')
    .values({ org_id: actor.orgId, amount_cents: amountCents, status, created_at: actor.at })
    .returning('id')
    .executeTakeFirstOrThrow();
  await emitWebhook(transaction, actor.orgId, `invoice.${status}`, { invoice_id: row.id, amount_cents: amountCents });
  return row.id;
}
