// What becomes of an attempt: the schedule, what counts as a failure, and when an endpoint is given up.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Courier } from '../../../src/outbox/courier.ts';
import { findEndpoint } from '../../../src/outbox/endpoints.ts';
import { minute, openOutbox, stillClock } from '../../support/outbox.ts';
import { startReceiver } from '../../support/webhook-receiver.ts';

const { db, organization, createCourier, newEndpoint, queue, deliveriesTo } = await openOutbox({ after });

test('a delivery that always fails is tried eight times by the schedule, with the same bytes, and is given up', async (t) => {
  const clock = stillClock();
  const receiver = await startReceiver(t);
  receiver.answer = 500;
  const endpointId = await newEndpoint(receiver.url);
  await queue(endpointId, 1, clock.now());
  const courier = createCourier(clock);
  const read = async () => {
    const [delivery] = await deliveriesTo(endpointId);
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
    const [delivery] = await deliveriesTo(endpointId);
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
    const [delivery] = await deliveriesTo(endpointId);
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
