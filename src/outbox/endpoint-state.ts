import type { Actor } from '../audit/record.ts';
import type { Db } from '../database/database.ts';
import { auditEndpoint, endpointFrom, type WebhookEndpoint } from './endpoints.ts';

/**
 * From now on the endpoint gets deliveries again; `Courier.resume` makes those due that were held back. Enabling an enabled endpoint only
 * resets its count of failures.
 */
export async function enableEndpoint(transaction: Db, actor: Actor, id: number): Promise<WebhookEndpoint | undefined> {
  const before = await lockEndpoint(transaction, actor.orgId, id);
  if (before === undefined) return undefined;
  const row = await transaction
    .updateTable('webhook_endpoints')
    .set({ enabled: true, disabled_reason: null, consecutive_failures: 0, updated_at: actor.at })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow();
  if (before.enabled) return endpointFrom(row);
  await auditEndpoint(transaction, actor, 'enabled', id, { name: row.name });
  return endpointFrom(row);
}

/**
 * Until it is enabled again, the endpoint gets no deliveries: each is held back when it is due, by the courier that claims it. Disabling a
 * disabled endpoint changes nothing.
 */
export async function disableEndpoint(transaction: Db, actor: Actor, id: number, reason: string): Promise<WebhookEndpoint | undefined> {
  const before = await lockEndpoint(transaction, actor.orgId, id);
  if (before === undefined) return undefined;
  if (!before.enabled) return endpointFrom(before);
  const row = await transaction
    .updateTable('webhook_endpoints')
    .set({ enabled: false, disabled_reason: reason, updated_at: actor.at })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow();
  await auditEndpoint(transaction, actor, 'disabled', id, { name: row.name, reason });
  return endpointFrom(row);
}

/**
 * Locks the endpoint's row. Every writer locks it before rows of its deliveries, so that no two deadlock. The lock is `for no
 * key update` because an insert of a delivery holds a key-share lock on the endpoint, which this one need not wait for.
 */
export function lockEndpoint(transaction: Db, orgId: number, id: number) {
  return transaction
    .selectFrom('webhook_endpoints')
    .selectAll()
    .where('org_id', '=', orgId)
    .where('id', '=', id)
    .forNoKeyUpdate()
    .executeTakeFirst();
}
