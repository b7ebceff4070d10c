import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import { fanOut } from '../../../src/outbox/fan-out.ts';
import { queueForGateways } from '../../../src/outbox/gateway-deliveries.ts';
import { insertDeliveries, newDelivery } from '../../../src/outbox/new-deliveries.ts';
import { claimDeliveries, releaseAllClaims, type Slots } from '../../../src/outbox/queue.ts';
import { openTestDatabase } from '../../support/engine.ts';

const database = await openTestDatabase();
after(() => database.close());
const { db } = database;
const now = new Date('2026-03-01T00:00:00Z');
const large = await organizationWith('large', 20);
const small = await organizationWith('small', 1);

async function organizationWith(slug: string, endpoints: number) {
  const { id } = await db.insertInto('organizations').values({ slug, name: slug }).returning('id').executeTakeFirstOrThrow();
  const { rows } = await sql<{ id: number }>`insert into webhook_endpoints (org_id, name, url, secret_ciphertext, created_at)
    select ${id}::integer, 'Hooks', 'https://example.com', '', ${now} from generate_series(1, ${endpoints}) returning id`.execute(db);
  return { id, endpoints: rows.map((endpoint) => ({ id: endpoint.id, org_id: id, slug })) };
}

test('many destinations of one organization, well or in trouble, delay no other organization', async () => {
  const event = { type: 'turn.completed', createdAt: now, data: {} };
  const queue = (endpoints: typeof large.endpoints, at: number) =>
    insertDeliveries(
      db,
      endpoints.map((endpoint) => newDelivery(null, endpoint, event)),
      new Date(now.getTime() + at),
    );
  for (const at of [0, 1, 2]) await queue(large.endpoints, at);
  await queue(small.endpoints, 1_000);
  const claim = async (slots: Slots, running: { healthy: number; troubled: number }) => {
    const later = new Date(now.getTime() + 5_000);
    const times = { now: later, since: new Date(0), leaseUntil: new Date(later.getTime() + 5_000) };
    const organizations = [{ org_id: large.id, ...running }];
    const { claimed } = await claimDeliveries(db, { processId: 'proc_1', ...times, slots, running: [], lanes: [], organizations });
    await releaseAllClaims(db, now);
    return claimed.map((delivery) => delivery.org_id).sort();
  };
  const healthy = { perLane: 32, healthy: 1, troubled: 0 };
  assert.deepEqual(await claim({ ...healthy, healthy: 2 }, { healthy: 0, troubled: 0 }), [large.id, small.id]);
  assert.deepEqual(await claim(healthy, { healthy: 1, troubled: 0 }), [small.id], 'the one that has less of the slots');
  await db.updateTable('webhook_endpoints').set({ consecutive_failures: 1 }).execute();
  assert.deepEqual(await claim({ perLane: 32, healthy: 0, troubled: 2 }, { healthy: 9, troubled: 0 }), [large.id, small.id]);
  assert.deepEqual(await claim({ perLane: 32, healthy: 0, troubled: 1 }, { healthy: 0, troubled: 1 }), [small.id]);
});

test('a destination that hangs here is tried with one attempt, and of the slots for such ones, though no failure of it is on record', async () => {
  await db.deleteFrom('deliveries').execute();
  await db.updateTable('webhook_endpoints').set({ consecutive_failures: 0 }).execute();
  const [hung, well] = large.endpoints;
  assert.ok(hung && well);
  const event = { type: 'turn.completed', createdAt: now, data: {} };
  const fresh = [hung, hung, hung, well, well].map((endpoint) => newDelivery(null, endpoint, event));
  await insertDeliveries(db, fresh, now);
  const { lane } = await db.selectFrom('deliveries').select('lane').where('endpoint_id', '=', hung.id).limit(1).executeTakeFirstOrThrow();
  const claim = async (running: number, healthy: number) => {
    const times = { now, since: new Date(0), leaseUntil: new Date(now.getTime() + 5_000) };
    const slots = { perLane: 32, healthy, troubled: 9 };
    const lanes = [{ lane, running, troubled: true }];
    const { claimed } = await claimDeliveries(db, { processId: 'proc_1', ...times, slots, running: [], lanes, organizations: [] });
    await releaseAllClaims(db, now);
    return claimed.map((delivery) => (delivery.endpoint_id === hung.id ? 'hung' : 'well')).sort();
  };
  assert.deepEqual(await claim(0, 9), ['hung', 'well', 'well']);
  assert.deepEqual(await claim(0, 0), ['hung']);
  assert.deepEqual(await claim(1, 9), ['well', 'well']);
});

test('events of one organization that go to many endpoints delay no other organization’s', async () => {
  await db.deleteFrom('deliveries').execute();
  for (const [at, orgId] of [large.id, large.id, large.id, small.id].entries()) {
    await sql`insert into webhook_events (org_id, type, data, created_at)
      values (${orgId}, 'turn.completed', '{}', ${new Date(now.getTime() + at)})`.execute(db);
  }
  const countDeliveries = async () => {
    const query = db.selectFrom('deliveries').select(({ fn }) => ['org_id', fn.countAll<number>().as('count')]);
    const rows = await query.groupBy('org_id').orderBy('org_id').execute();
    return rows.map((row) => [row.org_id, row.count]);
  };
  const step = () => fanOut(db, new Date(now.getTime() + 1_000), new Date(0), { events: 4, deliveries: 21 });
  assert.equal(await step(), false);
  assert.deepEqual(await countDeliveries(), [
    [large.id, 20],
    [small.id, 1],
  ]);
  assert.equal(await step(), true);
  assert.deepEqual(await countDeliveries(), [
    [large.id, 60],
    [small.id, 1],
  ]);
});

test('events of one organization delay no other’s either where more of them wait than are looked at in the order of their age', async () => {
  await db.deleteFrom('deliveries').execute();
  const insert = (orgId: number, from: number, count: number) =>
    sql`insert into webhook_events (org_id, type, data, created_at)
      select ${orgId}::integer, 'turn.completed', '{}', ${now}::timestamptz + (${from} + n) * interval '1 millisecond'
      from generate_series(1, ${count}) n`.execute(db);
  await insert(large.id, 0, 30);
  await insert(small.id, 100, 2);
  const organizations = async () => {
    const rows = await db.selectFrom('deliveries').select('org_id').distinct().orderBy('org_id').execute();
    return rows.map((row) => row.org_id);
  };
  const step = () => fanOut(db, new Date(now.getTime() + 1_000), new Date(0), { events: 4, deliveries: 20 }, 5);
  assert.equal(await step(), false);
  assert.deepEqual(await organizations(), [large.id, small.id]);
  let steps = 1;
  while (!(await step())) steps += 1;
  const { rows } = await sql<{ waiting: number }>`select count(*)::integer as waiting from webhook_events where not fanned_out`.execute(db);
  assert.deepEqual([rows[0]?.waiting, steps > 10], [0, true]);
});

test('many deliveries of one organization to a gateway delay no other organization’s to the same one', async () => {
  await db.deleteFrom('deliveries').execute();
  const delivery = { gatewayUrl: 'https://gateway.example', type: 'message', body: {} };
  await queueForGateways(db, large.id, [delivery, delivery, delivery], now);
  await queueForGateways(db, small.id, [delivery], new Date(now.getTime() + 1_000));
  const later = new Date(now.getTime() + 5_000);
  const times = { now: later, since: new Date(0), leaseUntil: new Date(later.getTime() + 5_000) };
  const slots = { perLane: 32, healthy: 9, troubled: 0 };
  const { claimed } = await claimDeliveries(db, { processId: 'proc_1', ...times, slots, running: [], lanes: [], organizations: [] });
  assert.deepEqual(claimed.map((one) => one.org_id).sort(), [large.id, small.id], 'one of each at a time');
});

test('an organization’s gateways are in a thousand lanes at most, as its endpoints are: a claim passes every lane of everybody', async () => {
  await db.deleteFrom('deliveries').execute();
  const gateways = Array.from({ length: 2_000 }, (_, number) => `https://gateway.example/${number}`);
  for (const orgId of [large.id, small.id, large.id]) {
    const deliveries = gateways.map((gatewayUrl) => ({ gatewayUrl, type: 'message', body: {} }));
    await queueForGateways(db, orgId, deliveries, now);
  }
  const { rows } = await sql<{ lanes: number; gateways: number; owners: number }>`
    select count(distinct lane)::integer as lanes, count(distinct (org_id, gateway_url))::integer as gateways,
      count(distinct (org_id, lane, gateway_url))::integer as owners from deliveries`.execute(db);
  assert.ok((rows[0]?.lanes ?? 0) <= 2 * 1_000, `${rows[0]?.lanes} lanes`);
  assert.ok((rows[0]?.lanes ?? 0) > 2 * 800, 'few gateways share one');
  assert.deepEqual([rows[0]?.gateways, rows[0]?.owners], [4_000, 4_000], 'what is queued for a gateway later is in the same lane');
  const shared = await sql`select lane from deliveries group by lane having count(distinct org_id) > 1`.execute(db);
  assert.deepEqual(shared.rows, [], 'organizations share none');
});
