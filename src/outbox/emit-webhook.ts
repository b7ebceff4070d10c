import { sql } from 'kysely';
import type { Db } from '../database/database.ts';
import type { EventType } from './event-types.ts';

/** Stores an event for the org's endpoints in the transaction of the change that it reports, so that neither exists without the other. */
export async function emitWebhook(transaction: Db, orgId: number, type: EventType, data: Record<string, unknown>): Promise<void> {
  await sql`select emit_webhook(${orgId}, ${type}, ${JSON.stringify(data)}::json)`.execute(transaction);
}
