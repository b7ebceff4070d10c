// What an endpoint is sent again when a time range is recovered.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import { resendDelivery } from '../../../src/outbox/deliveries.ts';
import { recoverRange } from '../../../src/outbox/recover.ts';
import { openTestDatabase } from '../../support/engine.ts';

const database = await openTestDatabase();
after(() => database.close());
const { db } = database;
const { rows } = await sql<{ id: number; slug: string }>`
  insert into organizations (slug, name) values ('acme', 'Acme') returning id, slug`.execute(db);
const organization = rows[0] ?? assert.fail();
const hour = (count: number) => new Date(Date.UTC(2026, 2, 1, count));
const [from, to, now] = [hour(1), hour(3), hour(5)];

async function newEndpoint(enabled = true): Promise<number> {
  const made = await sql<{ id: number }>`insert into webhook_endpoints (org_id, name, url, secret_ciphertext, event_types, enabled)
    values (${organization.id}, 'Hooks', 'https://example.com', '', '["turn.completed"]', ${enabled}) returning id`.execute(db);
  return made.rows[0]?.id ?? assert.fail();
}

async function newEvent(at: Date, type = 'turn.completed'): Promise<string> {
  const made = await sql<{ id: string }>`insert into webhook_events (org_id, type, data, created_at, fanned_out)
    values (${organization.id}, ${type}, '{}', ${at}, true) returning id`.execute(db);
  return made.rows[0]?.id ?? assert.fail();
}

/** A delivery of the event in this state, after eight attempts. */
async function deliver(endpointId: number, eventId: string, state: string, claimedBy: string | null = null): Promise<void> {
  await sql`insert into deliveries (id, org_id, endpoint_id, event_id, lane, type, body, state, attempt_count, claimed_by, created_at)
    values (gen_random_uuid(), ${organization.id}, ${endpointId}, ${eventId}, 'endpoint', 'turn.completed', '{}', ${state}, 8, ${claimedBy},
      ${from})`.execute(db);
}

/** By event: the state of its delivery, how many attempts count, and when it is due. */
async function deliveriesTo(endpointId: number): Promise<Map<string | null, unknown[]>> {
  const all = await db.selectFrom('deliveries').selectAll().where('endpoint_id', '=', endpointId).execute();
  return new Map(all.map((one) => [one.event_id, [one.state, one.attempt_count, one.next_attempt_at, one.due_at]]));
}

test('what was given up in the range is tried anew, unless it was a hundred times, what was never sent is sent, and nothing else', async () => {
  const endpointId = await newEndpoint();
  const [givenUp, delivered, tried, resent, worn] = [
    await newEvent(from),
    await newEvent(hour(2)),
    await newEvent(hour(2)),
    await newEvent(hour(2)),
    await newEvent(hour(2)),
  ];
  const missed = await newEvent(to);
  for (const outside of [await newEvent(new Date(from.getTime() - 1)), await newEvent(hour(4))])
    await deliver(endpointId, outside, 'failed');
  await newEvent(new Date(to.getTime() + 1));
  await newEvent(hour(2), 'session.started');
  await deliver(endpointId, givenUp, 'failed');
  await deliver(endpointId, delivered, 'delivered');
  await deliver(endpointId, tried, 'pending');
  await deliver(endpointId, resent, 'failed', 'a process that sends it again at this moment');
  await deliver(endpointId, worn, 'failed');
  await sql`insert into delivery_attempts (delivery_id, number, manual, started_at, duration_ms, response_excerpt)
    select id, n, false, ${from}, 1, '' from deliveries, generate_series(1, 100) n where event_id = ${worn}`.execute(db);
  const before = await deliveriesTo(endpointId);
  assert.equal(await recoverRange(db, organization, endpointId, { from, to }, now), 2);
  const fresh = ['pending', 0, now, now];
  assert.deepEqual(await deliveriesTo(endpointId), new Map([...before, [givenUp, fresh], [missed, fresh]]));
  assert.equal(await recoverRange(db, organization, endpointId, { from, to }, now), 0, 'they are on their way');
});

test('for an endpoint that is disabled it waits until the endpoint is enabled', async () => {
  await sql`delete from webhook_events`.execute(db);
  const endpointId = await newEndpoint(false);
  const [givenUp, missed] = [await newEvent(hour(2)), await newEvent(hour(2))];
  await deliver(endpointId, givenUp, 'failed');
  assert.equal(await recoverRange(db, organization, endpointId, { from, to }, now), 2);
  const waiting = ['pending', 0, now, null];
  assert.deepEqual(
    await deliveriesTo(endpointId),
    new Map([
      [givenUp, waiting],
      [missed, waiting],
    ]),
  );
});

test('a recovered delivery that was to be sent again at once is, although its endpoint is disabled', async () => {
  await sql`delete from webhook_events`.execute(db);
  const endpointId = await newEndpoint(false);
  const givenUp = await newEvent(hour(2));
  await deliver(endpointId, givenUp, 'failed');
  const { id } = await db.selectFrom('deliveries').select('id').where('endpoint_id', '=', endpointId).executeTakeFirstOrThrow();
  await resendDelivery(db, organization.id, id, hour(4));
  assert.equal(await recoverRange(db, organization, endpointId, { from, to }, now), 1);
  assert.deepEqual((await deliveriesTo(endpointId)).get(givenUp), ['pending', 0, now, now]);
});

test('a range of more events than are read at once is recovered whole, also where they have the same time', async () => {
  await sql`delete from webhook_events`.execute(db);
  const endpointId = await newEndpoint();
  await sql`insert into webhook_events (org_id, type, data, created_at, fanned_out)
    select ${organization.id}, 'turn.completed', '{}', ${hour(2)}, true from generate_series(1, 501)`.execute(db);
  assert.equal(await recoverRange(db, organization, endpointId, { from, to }, now), 501);
});
