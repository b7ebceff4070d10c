import type { Actor } from '../audit/record.ts';
import type { Db } from '../database/database.ts';
import { emitWebhook } from '../outbox/emit-webhook.ts';

export interface Invoice {
  id: number;
  amountCents: number;
  status: 'paid' | 'payment_failed';
  createdAt: Date;
}

/** Stores an invoice of the operator's billing, and sends the org a webhook event. */
export async function addInvoice(
  transaction: Db,
  actor: Actor,
  input: { amountCents: number; status: 'paid' | 'payment_failed' },
): Promise<Invoice> {
  const row = await transaction
    .insertInto('invoices')
    .values({ org_id: actor.orgId, amount_cents: input.amountCents, status: input.status, created_at: actor.at })
    .returning('id')
    .executeTakeFirstOrThrow();
  await emitWebhook(transaction, actor.orgId, `invoice.${input.status}`, { invoice_id: row.id, amount_cents: input.amountCents });
  return { id: row.id, amountCents: input.amountCents, status: input.status, createdAt: actor.at };
}
