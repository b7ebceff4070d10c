// Which process makes which attempt, and when: claims and their leases, lanes, several couriers.
// On PGlite: one test is about a start on it.
import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import type { Courier } from '../../../src/outbox/courier.ts';
import { resendDelivery } from '../../../src/outbox/deliveries.ts';
import { disableEndpoint } from '../../../src/outbox/endpoint-state.ts';
import { findEndpoint } from '../../../src/outbox/endpoints.ts';
import { queueForGateways } from '../../../src/outbox/gateway-deliveries.ts';
import { engine } from '../../support/engine.ts';
import { minute, openOutbox, stillClock } from '../../support/outbox.ts';
import { type Receiver, startReceiver } from '../../support/webhook-receiver.ts';

const { db, organization, createCourier, newEndpoint, queue, deliveriesTo } = await openOutbox({ after });

test('a destination that hangs, and a long queue for it, delay no other; attempts that a stop cuts off did not fail, and are due again', async (t) => {
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
  const ofAnother = new Date(clock.now().getTime() + 60 * minute);
  const [last] = await deliveriesTo(deadEndpoints[0] ?? 0);
  await db
    .updateTable('deliveries')
    .set({ claimed_by: 'another', due_at: ofAnother })
    .where('id', '=', last?.id ?? '')
    .execute();
  await courier.stop();
  const left = await db.selectFrom('deliveries').selectAll().where('endpoint_id', 'in', deadEndpoints).execute();
  const claimed = left.filter(({ claimed_by }) => claimed_by !== null);
  assert.deepEqual(
    claimed.map(({ id, claimed_by, due_at }) => [id, claimed_by, due_at]),
    [[last?.id, 'another', ofAnother]],
    'what another process has claimed is left to it',
  );
  assert.equal(left.filter(({ due_at }) => due_at !== null && due_at <= clock.now()).length, 12 * 20 - 1);
  const failures = await db
    .selectFrom('webhook_endpoints')
    .select(({ fn }) => fn.sum<number>('consecutive_failures').as('count'))
    .executeTakeFirstOrThrow();
  assert.deepEqual([Number(failures.count), Math.max(...left.map(({ attempt_count }) => attempt_count))], [0, 0]);
});

test('what a process that fell silent had claimed is sent by another when the lease ends, not before', async (t) => {
  const clock = stillClock();
  const receiver = await startReceiver(t);
  const endpointId = await newEndpoint(receiver.url);
  await queue(endpointId, 3, clock.now());
  const [lost] = await deliveriesTo(endpointId);
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

test('an attempt whose outcome could not be written holds up nothing: its courier can stop, and it is made again', async (t) => {
  const clock = stillClock();
  const receiver = await startReceiver(t);
  const endpointId = await newEndpoint(receiver.url);
  await queue(endpointId, 1, clock.now());
  const courier = createCourier(clock);
  await sql`alter table delivery_attempts rename to delivery_attempts_away`.execute(db);
  const isIdle = courier.idle();
  await receiver.until((received) => received.length === 1);
  await isIdle;
  await courier.stop();
  await sql`alter table delivery_attempts_away rename to delivery_attempts`.execute(db);
  const next = createCourier(clock);
  await next.idle();
  await next.stop();
  const [delivery] = await deliveriesTo(endpointId);
  assert.deepEqual([delivery?.state, delivery?.attempts.length, receiver.received.length], ['delivered', 1, 2]);
});

test('a start on the embedded database sends at once what the last process had claimed', { skip: engine === 'postgres' }, async (t) => {
  const clock = stillClock();
  const receiver = await startReceiver(t);
  const endpointId = await newEndpoint(receiver.url);
  await queue(endpointId, 1, clock.now());
  const lease = new Date(clock.now().getTime() + 60 * minute);
  await db.updateTable('deliveries').set({ claimed_by: 'gone', due_at: lease }).where('endpoint_id', '=', endpointId).execute();
  const courier = createCourier(clock);
  await courier.start();
  await receiver.until((received) => received.length === 1);
  await courier.stop();
});

test('a resend that such a process had claimed does not count either, when another makes it', async (t) => {
  const clock = stillClock();
  const receiver = await startReceiver(t);
  const endpointId = await newEndpoint(receiver.url);
  await queue(endpointId, 1, clock.now());
  const courier = createCourier(clock);
  await courier.idle();
  await db.updateTable('deliveries').set({ claimed_by: 'gone', due_at: clock.now() }).where('endpoint_id', '=', endpointId).execute();
  receiver.answer = 500;
  await courier.idle();
  const [delivery] = await deliveriesTo(endpointId);
  assert.deepEqual([delivery?.state, delivery?.attempts.map(({ manual }) => manual)], ['delivered', [false, true]]);
  assert.equal((await findEndpoint(db, organization.id, endpointId))?.consecutiveFailures, 0);
  await courier.stop();
});

test('a resend that a stop or the end of its lease cuts off is made again, and still counts for nothing', async (t) => {
  for (const isStopped of [true, false]) {
    const clock = stillClock();
    const receiver = await startReceiver(t);
    receiver.answer = 500;
    const endpointId = await newEndpoint(receiver.url);
    await queue(endpointId, 1, clock.now());
    const courier = createCourier(clock);
    await courier.idle();
    clock.advance(10_000);
    await courier.idle();
    const [failed] = await deliveriesTo(endpointId);
    const cutOff = await holdResend(receiver, courier, clock, failed?.id);
    if (isStopped) await courier.stop();
    else clock.advance(5_000);
    receiver.answer = 500;
    const next = createCourier(clock);
    await next.idle();
    await Promise.all([next.stop(), courier.stop()]);
    cutOff.destroy();
    const [delivery] = await deliveriesTo(endpointId);
    assert.deepEqual(
      delivery?.attempts.map(({ manual }) => manual),
      [false, false, true],
    );
    assert.deepEqual([delivery?.state, delivery?.nextAttemptAt], ['pending', failed?.nextAttemptAt], 'the schedule is as it was');
    assert.equal((await findEndpoint(db, organization.id, endpointId))?.consecutiveFailures, 2);
  }
});

test('a resend to a disabled endpoint that a stop cuts off is made after it', async (t) => {
  const clock = stillClock();
  const receiver = await startReceiver(t);
  receiver.answer = 500;
  const endpointId = await newEndpoint(receiver.url);
  await queue(endpointId, 1, clock.now());
  const courier = createCourier(clock);
  await courier.idle();
  const actor = { orgId: organization.id, at: clock.now() };
  await db.transaction().execute((transaction) => disableEndpoint(transaction, actor, endpointId, 'Test'));
  const [failed] = await deliveriesTo(endpointId);
  const cutOff = await holdResend(receiver, courier, clock, failed?.id);
  await courier.stop();
  cutOff.destroy();
  receiver.answer = 200;
  const next = createCourier(clock);
  await next.start();
  await receiver.until((received) => received.length === 3, 'the resend, once more');
  await next.idle();
  await next.stop();
  assert.deepEqual(
    (await deliveriesTo(endpointId)).map(({ state, attempts }) => [state, attempts.length]),
    [['delivered', 2]],
  );
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

/** Has a delivery sent again, to a receiver that does not answer. Resolves with the answer that is held when the attempt is under way. */
async function holdResend(receiver: Receiver, courier: Courier, clock: { now(): Date }, id = ''): Promise<ServerResponse> {
  const arrived = new Promise<ServerResponse>((resolve) => {
    receiver.answer = (_one, response) => resolve(response);
  });
  await db.transaction().execute((transaction) => resendDelivery(transaction, organization.id, id, clock.now()));
  courier.wake();
  return arrived;
}
