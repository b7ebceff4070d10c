// The courier on a real database with a clock that stands still until it is moved.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import { createSecretBox } from '../../../src/accounts/secret-box.ts';
import { loadConfig } from '../../../src/config.ts';
import { openDatabase } from '../../../src/database/open.ts';
import { Courier, type CourierParts } from '../../../src/outbox/courier.ts';
import { listDeliveries, resendDelivery, sendTest } from '../../../src/outbox/deliveries.ts';
import { disableEndpoint, enableEndpoint } from '../../../src/outbox/endpoint-state.ts';
import { createEndpoint, findEndpoint } from '../../../src/outbox/endpoints.ts';
import { finishDeliveries } from '../../../src/outbox/finish.ts';
import { queueForGateways } from '../../../src/outbox/gateway-deliveries.ts';
import { insertDeliveries, newDelivery } from '../../../src/outbox/new-deliveries.ts';
import { dropOldDeliveries } from '../../../src/outbox/retention.ts';
import { createLogger } from '../../../src/telemetry/logger.ts';
import { createDatabase } from '../../support/engine.ts';
import { startReceiver } from '../../support/webhook-receiver.ts';

const prepared = await createDatabase();
const database = await openDatabase(loadConfig(prepared.settings));
after(async () => {
  await database.close();
  await prepared.remove();
});
const { db } = database;
const secrets = createSecretBox(Buffer.alloc(32, 1));
const organization = await db
  .insertInto('organizations')
  .values({ slug: 'acme', name: 'Acme' })
  .returning(['id', 'slug'])
  .executeTakeFirstOrThrow();
const noPage = { limit: 200, before: undefined, state: undefined };
const minute = 60_000;

function stillClock() {
  let now = new Date('2026-03-01T00:00:00Z').getTime();
  return {
    now: () => new Date(now),
    advance(milliseconds: number) {
      now += milliseconds;
    },
  };
}

function createCourier(clock: CourierParts['clock'], more: Partial<CourierParts> = {}): Courier {
  const send: CourierParts['fetch'] = (input, init) => fetch(input, { ...init, redirect: 'manual' });
  return new Courier({
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
  });
}

async function newEndpoint(url: string): Promise<number> {
  const actor = { orgId: organization.id, at: new Date() };
  const created = await db
    .transaction()
    .execute((transaction) => createEndpoint(transaction, actor, secrets, { name: 'Hooks', url, eventTypes: [] }));
  return created.endpoint.id;
}

async function queue(endpointId: number, count: number, now: Date): Promise<void> {
  const endpoint = { id: endpointId, org_id: organization.id, slug: organization.slug };
  const event = { type: 'session.started', createdAt: now, data: {} };
  const fresh = Array.from({ length: count }, () => newDelivery(null, endpoint, event));
  await insertDeliveries(db, fresh, now);
}

test('a delivery that always fails is tried eight times by the schedule, with the same bytes, and is given up', async (t) => {
  const clock = stillClock();
  const receiver = await startReceiver(t);
  receiver.answer = 500;
  const endpointId = await newEndpoint(receiver.url);
  await queue(endpointId, 1, clock.now());
  const courier = createCourier(clock);
  const read = async () => {
    const [delivery] = await listDeliveries(db, organization.id, endpointId, noPage);
    assert.ok(delivery);
    return delivery;
  };
  const steps = [5_000, 5 * minute, 30 * minute, 120 * minute, 300 * minute, 600 * minute, 600 * minute];
  for (const step of steps) {
    await courier.idle();
    const delivery = await read();
    assert.equal(delivery.state, 'pending');
    const wait = (delivery.nextAttemptAt?.getTime() ?? 0) - clock.now().getTime();
    assert.ok(wait >= step * 0.8 && wait <= step * 1.2, `${wait} is not about ${step}`);
    const before = receiver.received.length;
    clock.advance(wait - 1);
    await courier.idle();
    assert.equal(receiver.received.length, before);
    clock.advance(1);
  }
  await courier.idle();
  const delivery = await read();
  assert.deepEqual([delivery.state, delivery.nextAttemptAt, delivery.attempts.length], ['failed', undefined, 8]);
  assert.equal(new Set(receiver.received.map((one) => one.text)).size, 1);
  assert.equal(new Set(receiver.received.map((one) => one.headers['svc-signature'])).size, 8);
  assert.equal((await findEndpoint(db, organization.id, endpointId))?.consecutiveFailures, 8);
  clock.advance(24 * 60 * minute);
  await courier.idle();
  assert.equal(receiver.received.length, 8);
  await courier.stop();
});

test('Retry-After of a 429 or 503 lengthens the step, of a 500 it does not', async (t) => {
  const clock = stillClock();
  const receiver = await startReceiver(t);
  const courier = createCourier(clock);
  const waits: number[] = [];
  for (const status of [429, 503, 500]) {
    const endpointId = await newEndpoint(receiver.url);
    receiver.answer = (_one, response) => response.writeHead(status, { 'retry-after': '9' }).end();
    await queue(endpointId, 1, clock.now());
    await courier.idle();
    const [delivery] = await listDeliveries(db, organization.id, endpointId, noPage);
    waits.push((delivery?.nextAttemptAt?.getTime() ?? 0) - clock.now().getTime());
  }
  assert.deepEqual(waits.slice(0, 2), [9_000, 9_000]);
  assert.ok((waits[2] ?? 0) <= 6_000);
  await courier.stop();
});

test('a retry put off by a clock that was ahead is made when the clock is set back; one by the schedule is not hurried', async (t) => {
  const clock = stillClock();
  const receiver = await startReceiver(t);
  receiver.answer = 500;
  const endpointId = await newEndpoint(receiver.url);
  const courier = createCourier(clock);
  const attemptsAt = async (process: Courier) => {
    await process.idle();
    return receiver.received.length;
  };
  await queue(endpointId, 1, clock.now());
  assert.equal(await attemptsAt(courier), 1);
  const restarted = createCourier(clock);
  assert.equal(await attemptsAt(restarted), 1, 'five seconds are not over');
  clock.advance(60 * minute);
  assert.equal(await attemptsAt(courier), 2);
  clock.advance(-60 * minute);
  assert.equal(await attemptsAt(courier), 3, 'not after an hour and five minutes');
  clock.advance(60 * minute);
  assert.equal(await attemptsAt(courier), 4);
  clock.advance(-24 * 60 * minute);
  assert.equal(await attemptsAt(createCourier(clock)), 5, 'nor after a day, when the process was started anew');
  assert.equal(await attemptsAt(createCourier(clock)), 5, 'two hours are not over');
  await courier.stop();
  await restarted.stop();
});

test('a success between failures starts the count anew; the limit disables and parks what waits', async (t) => {
  const clock = stillClock();
  const receiver = await startReceiver(t);
  const endpointId = await newEndpoint(receiver.url);
  const courier = createCourier(clock, { maxFailures: 3 });
  const failures = async () => (await findEndpoint(db, organization.id, endpointId))?.consecutiveFailures;
  for (const [status, expected] of [
    [500, 1],
    [500, 2],
    [200, 0],
    [500, 1],
  ] as const) {
    receiver.answer = status;
    await queue(endpointId, 1, clock.now());
    await courier.idle();
    assert.equal(await failures(), expected);
  }
  await queue(endpointId, 2, clock.now());
  await courier.idle();
  const endpoint = await findEndpoint(db, organization.id, endpointId);
  assert.deepEqual([endpoint?.enabled, endpoint?.consecutiveFailures], [false, 3]);
  const attempts = receiver.received.length;
  clock.advance(60 * minute);
  await courier.idle();
  assert.equal(receiver.received.length, attempts);
  await courier.stop();
});

test('no answer in time, a refused connection and a broken answer are failures that say what happened', async (t) => {
  const clock = stillClock();
  const receiver = await startReceiver(t);
  const courier = createCourier(clock, { timeoutMs: 150 });
  const errorOf = async (url: string) => {
    const endpointId = await newEndpoint(url);
    await queue(endpointId, 1, clock.now());
    await courier.idle();
    const [delivery] = await listDeliveries(db, organization.id, endpointId, noPage);
    return delivery?.attempts[0];
  };
  receiver.answer = () => {};
  assert.equal((await errorOf(receiver.url))?.error, 'No answer within 0.15 s.');
  receiver.answer = (_one, response) => response.destroy();
  assert.ok((await errorOf(receiver.url))?.error);
  assert.match((await errorOf('http://127.0.0.1:1/'))?.error ?? '', /.+/);
  // A 2xx decides, whatever becomes of its body; of a long one only the beginning is read.
  receiver.answer = (_one, response) => response.writeHead(200).write('partly');
  const stalled = await errorOf(receiver.url);
  assert.deepEqual([stalled?.status, stalled?.error], [200, undefined]);
  receiver.answer = (_one, response) => response.writeHead(200).end('x'.repeat(1_000_000));
  assert.equal((await errorOf(receiver.url))?.excerpt.length, 1_024);
  await courier.stop();
});

test('a destination that hangs, and a long queue for it, delay no other', async (t) => {
  const clock = stillClock();
  const [dead, alive] = [await startReceiver(t), await startReceiver(t)];
  dead.answer = () => {};
  const deadEndpoints = await Promise.all(Array.from({ length: 12 }, () => newEndpoint(dead.url)));
  const aliveEndpoint = await newEndpoint(alive.url);
  for (const endpointId of deadEndpoints) await queue(endpointId, 20, clock.now());
  clock.advance(1_000);
  await queue(aliveEndpoint, 100, clock.now());
  const limits = { perLane: 4, healthy: 16, troubled: 16, slowMs: 500 };
  const courier = createCourier(clock, { limits, timeoutMs: 60_000, pollMs: 50 });
  await courier.start();
  await alive.until((received) => received.length === 100);
  assert.ok(dead.received.length <= 12 * limits.perLane, `${dead.received.length} attempts hang`);
  await courier.stop();
});

test('what a process that fell silent had claimed is sent by another when the lease ends, not before', async (t) => {
  const clock = stillClock();
  const receiver = await startReceiver(t);
  const endpointId = await newEndpoint(receiver.url);
  await queue(endpointId, 3, clock.now());
  const [lost] = await listDeliveries(db, organization.id, endpointId, noPage);
  assert.ok(lost);
  await db
    .updateTable('deliveries')
    .set({ claimed_by: 'gone', due_at: new Date(clock.now().getTime() + 5_000) })
    .where('id', '=', lost.id)
    .execute();
  const courier = createCourier(clock);
  await courier.idle();
  assert.equal(receiver.received.length, 2);
  clock.advance(5_000);
  await courier.idle();
  assert.equal(receiver.received.at(-1)?.body.id, lost.id);
  assert.equal(receiver.received.length, 3);
  await courier.stop();
});

test('a clock that jumps past the lease of an attempt under way makes no second one', async (t) => {
  const clock = stillClock();
  const receiver = await startReceiver(t);
  let held: ServerResponse | undefined;
  receiver.answer = (_one, response) => {
    held = response;
  };
  await queue(await newEndpoint(receiver.url), 1, clock.now());
  const courier = createCourier(clock);
  const isIdle = courier.idle();
  await receiver.until((received) => received.length === 1, 'the attempt');
  receiver.answer = 200;
  clock.advance(60 * minute);
  await queue(await newEndpoint(receiver.url), 1, clock.now());
  courier.wake();
  await receiver.until((received) => new Set(received.map((one) => one.body.id)).size === 2, 'the delivery after it');
  held?.end();
  await isIdle;
  assert.equal(receiver.received.length, 2);
  await courier.stop();
});

test('two couriers on one queue send each delivery once', async (t) => {
  const clock = stillClock();
  const receiver = await startReceiver(t);
  const endpoints = await Promise.all(Array.from({ length: 5 }, () => newEndpoint(receiver.url)));
  for (const endpointId of endpoints) await queue(endpointId, 20, clock.now());
  const couriers = [createCourier(clock), createCourier(clock)];
  await Promise.all(couriers.map((courier) => courier.idle()));
  await receiver.until((received) => received.length >= 100);
  await Promise.all(couriers.map((courier) => courier.stop()));
  assert.equal(receiver.received.length, 100);
  assert.equal(new Set(receiver.received.map((one) => one.body.id)).size, 100);
});

test('two couriers send to another gateway one after another, in the order of the queue', { timeout: 20_000 }, async (t) => {
  const clock = stillClock();
  const receiver = await startReceiver(t);
  const heard: number[] = [];
  receiver.answer = ({ body }, response) => {
    heard.push(Number(body.number));
    setTimeout(() => {
      heard.push(Number(body.number));
      response.writeHead(200).end();
    }, 50);
  };
  for (const number of [1, 2, 3])
    await queueForGateways(db, organization.id, [{ gatewayUrl: receiver.url, type: 'message', body: { number } }], clock.now());
  const couriers = [createCourier(clock), createCourier(clock)];
  while (heard.length < 6) await Promise.all(couriers.map((courier) => courier.idle()));
  await Promise.all(couriers.map((courier) => courier.stop()));
  assert.deepEqual(heard, [1, 1, 2, 2, 3, 3]);
});

test('deliveries older than the retention are dropped, but no event of a gateway whose reply is owed', async () => {
  const daysAgo = (days: number) => new Date(Date.now() - days * 24 * 60 * minute);
  const endpointId = await newEndpoint('http://127.0.0.1:1/');
  await queue(endpointId, 2, daysAgo(31));
  await queue(endpointId, 1, daysAgo(29));
  await sql`insert into gateway_events (org_id, event_id, target, state, event, created_at)
    select ${organization.id}, state, 'submit', state, '{}', ${daysAgo(31)}
    from unnest(array['received', 'admitted', 'done']) state`.execute(db);
  await dropOldDeliveries(db, 30);
  const { rows } = await sql<{ state: string }>`select state from gateway_events`.execute(db);
  assert.deepEqual(rows, [{ state: 'admitted' }]);
  assert.equal((await listDeliveries(db, organization.id, endpointId, noPage)).length, 1);
});

test('a result is written by who holds the claim, a success by anyone; a resend moves no schedule, and one asked for meanwhile is due', async () => {
  const [queuedAt, retryAt, now] = [0, 30, 10].map((minutes) => new Date(Date.parse('2026-03-01T00:00:00Z') + minutes * minute));
  assert.ok(queuedAt && retryAt && now);
  const endpointId = await newEndpoint('http://127.0.0.1:1/');
  const held = { claimed_by: 'here', attempt_count: 1, next_attempt_at: retryAt, due_at: now };
  /** What becomes of a delivery that was left like this, when attempts made here were answered with these statuses. */
  const finish = async (left: object, statuses: number | number[], manual = false) => {
    await queue(endpointId, 1, queuedAt);
    const row = await db
      .updateTable('deliveries')
      .set({ ...held, ...left })
      .where('id', '=', db.selectFrom('deliveries').select('id').orderBy('position', 'desc').limit(1))
      .returningAll()
      .executeTakeFirstOrThrow();
    const sealed = { secret_ciphertext: null, previous_secret_ciphertext: null, previous_secret_until: null };
    const delivery = { ...row, ...sealed, manual, url: '', enabled: true };
    const finished = [statuses].flat().map((status) => {
      const outcome = { ok: status === 200, status, error: null, excerpt: '', durationMs: 1, retryAfter: null };
      return { delivery, outcome, startedAt: now };
    });
    await finishDeliveries(db, 'here', finished, now, 1_000);
    const is = await db.selectFrom('deliveries').selectAll().where('id', '=', row.id).executeTakeFirstOrThrow();
    return [is.state, is.claimed_by, is.attempt_count, is.next_attempt_at, is.due_at, is.delivered_at];
  };
  const lost = { claimed_by: 'another' };
  assert.deepEqual(await finish(lost, 500), ['pending', 'another', 1, retryAt, now, null], 'lost');
  assert.deepEqual(await finish(lost, 200), ['delivered', null, 2, null, null, now], 'lost, but delivered');
  const [done, earlier] = [
    { state: 'delivered', next_attempt_at: null, delivered_at: queuedAt },
    ['delivered', null, 1, null, null, queuedAt],
  ];
  assert.deepEqual(await finish({ resend_requested: true }, 200), ['delivered', null, 2, null, now, now], 'asked for meanwhile');
  assert.deepEqual(await finish({}, 500, true), ['pending', null, 1, retryAt, retryAt, null], 'a resend that failed');
  assert.deepEqual(await finish({}, 200, true), ['delivered', null, 1, null, null, now], 'a resend ahead of the schedule');
  for (const status of [200, 500]) assert.deepEqual(await finish(done, status, true), earlier, 'a resend of what was delivered');
  const [state, , attempts, next] = await finish({ endpoint_id: null, gateway_url: 'http://127.0.0.1:1/' }, 410);
  assert.deepEqual([state, attempts], ['pending', 2], 'another gateway may be there again');
  assert.ok(next instanceof Date && next > now);
  const endpoint = () => sql`select consecutive_failures, xmin::text from webhook_endpoints where id = ${endpointId}`.execute(db);
  await finish({}, [500, 200, 500]);
  assert.equal((await findEndpoint(db, organization.id, endpointId))?.consecutiveFailures, 1, 'only what failed since');
  await finish({}, 200);
  const { rows: well } = await endpoint();
  await finish({}, 200);
  assert.deepEqual((await endpoint()).rows, well, 'the row of one that is well is not written again and again');
});

test('what is under way or was asked for by hand is sent to an endpoint that is disabled at that moment; the rest waits for its own time', async () => {
  const now = new Date();
  const later = new Date(now.getTime() + 60 * minute);
  const endpointId = await newEndpoint('http://127.0.0.1:1/');
  await queue(endpointId, 3, now);
  const [resent, claimed] = await listDeliveries(db, organization.id, endpointId, noPage);
  await db.updateTable('deliveries').set({ next_attempt_at: later }).where('endpoint_id', '=', endpointId).execute();
  await sql`update deliveries set claimed_by = 'another' where id = ${claimed?.id}`.execute(db);
  const dueAt = async () => {
    const rows = await db.selectFrom('deliveries').select('due_at').where('endpoint_id', '=', endpointId).orderBy('position').execute();
    return rows.map(({ due_at }) => due_at);
  };
  const actor = { orgId: organization.id, at: new Date(now.getTime() + minute) };
  await db.transaction().execute(async (transaction) => {
    await sendTest(transaction, organization, endpointId, 'session.started', now);
    await resendDelivery(transaction, organization.id, resent?.id ?? '', now);
    await disableEndpoint(transaction, actor, endpointId, 'By hand.');
  });
  assert.deepEqual(await dueAt(), [null, now, now, now]);
  await db.transaction().execute((transaction) => enableEndpoint(transaction, actor, endpointId));
  assert.deepEqual(await dueAt(), [later, now, now, now]);
});
