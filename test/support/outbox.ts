// An organization's outbox on a real database, with couriers whose clock stands still until it is moved.
import { randomUUID } from 'node:crypto';
import { createSecretBox } from '../../src/accounts/secret-box.ts';
import { Courier, type CourierParts } from '../../src/outbox/courier.ts';
import { listDeliveries } from '../../src/outbox/deliveries.ts';
import { createEndpoint } from '../../src/outbox/endpoints.ts';
import { insertDeliveries, newDelivery } from '../../src/outbox/new-deliveries.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import type { Owner } from './app.ts';
import { openTestDatabase } from './engine.ts';

export const minute = 60_000;

export function stillClock() {
  let now = new Date('2026-03-01T00:00:00Z').getTime();
  return {
    now: () => new Date(now),
    advance(milliseconds: number) {
      now += milliseconds;
    },
  };
}

export async function openOutbox(owner: Owner) {
  const database = await openTestDatabase();
  owner.after(() => database.close());
  const { db } = database;
  const secrets = createSecretBox(Buffer.alloc(32, 1));
  const organization = await db
    .insertInto('organizations')
    .values({ slug: 'acme', name: 'Acme' })
    .returning(['id', 'slug'])
    .executeTakeFirstOrThrow();
  const send: CourierParts['fetch'] = (input, init) => fetch(input, { ...init, redirect: 'manual' });
  return {
    database,
    db,
    organization,
    createCourier: (clock: CourierParts['clock'], more: Partial<CourierParts> = {}) =>
      new Courier({
        database,
        processId: randomUUID(),
        clock,
        logger: createLogger('silent'),
        secrets,
        fetch: send,
        gatewayFetch: send,
        peers: {},
        maxFailures: 25,
        leaseMs: 5_000,
        // The database's clock goes on.
        retentionDays: 36_500,
        ...more,
      }),
    /** Returns its id. */
    async newEndpoint(url: string): Promise<number> {
      const actor = { orgId: organization.id, at: new Date() };
      const input = { name: 'Hooks', url, eventTypes: [] };
      const created = await db.transaction().execute((transaction) => createEndpoint(transaction, actor, secrets, input));
      return created.endpoint.id;
    },
    async queue(endpointId: number, count: number, now: Date): Promise<void> {
      const endpoint = { id: endpointId, org_id: organization.id, slug: organization.slug };
      const event = { type: 'session.started', createdAt: now, data: {} };
      const fresh = Array.from({ length: count }, () => newDelivery(null, endpoint, event));
      await insertDeliveries(db, fresh, now);
    },
    deliveriesTo: async (endpointId: number) =>
      (await listDeliveries(db, organization.id, endpointId, { limit: 200, before: undefined, state: undefined })).deliveries,
  };
}
