// Deliveries to a disabled endpoint: they wait until it is enabled, however many they are.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import { resendDelivery, sendTest } from '../../../src/outbox/deliveries.ts';
import { disableEndpoint, enableEndpoint } from '../../../src/outbox/endpoint-state.ts';
import { holdBack, resumeSome } from '../../../src/outbox/held-back.ts';
import { engine } from '../../support/engine.ts';
import { minute, openOutbox, stillClock } from '../../support/outbox.ts';
import { until } from '../../support/until.ts';

const { database, db, organization, createCourier, newEndpoint, queue, deliveriesTo } = await openOutbox({ after });

const disable = (endpointId: number, at = new Date()) =>
  db.transaction().execute((transaction) => disableEndpoint(transaction, { orgId: organization.id, at }, endpointId, 'By hand.'));
const enable = (endpointId: number, at = new Date()) =>
  db.transaction().execute((transaction) => enableEndpoint(transaction, { orgId: organization.id, at }, endpointId));

const dueAt = async (endpointId: number) => {
  const rows = await db.selectFrom('deliveries').select('due_at').where('endpoint_id', '=', endpointId).orderBy('position').execute();
  return rows.map(({ due_at }) => due_at);
};

/** A delivery that `here` has claimed, although its endpoint is disabled. */
async function claimedOfDisabled() {
  const endpointId = await newEndpoint('http://127.0.0.1:1/');
  const now = new Date();
  await disable(endpointId, now);
  await queue(endpointId, 1, now);
  const row = await db
    .updateTable('deliveries')
    .set({ claimed_by: 'here' })
    .where('endpoint_id', '=', endpointId)
    .returningAll()
    .executeTakeFirstOrThrow();
  const sealed = { secret_ciphertext: null, previous_secret_ciphertext: null, previous_secret_until: null };
  return { endpointId, now, claimed: { ...row, ...sealed, manual: false, url: '', enabled: false } };
}

test('a delivery that is held back is due if its endpoint is being enabled at this moment', async () => {
  const { endpointId, now, claimed } = await claimedOfDisabled();
  const { holding } = await db.transaction().execute(async (transaction) => {
    await enableEndpoint(transaction, { orgId: organization.id, at: now }, endpointId);
    const begun = holdBack(db, 'here', [claimed], now);
    if (engine === 'postgres') await until(async () => (await sql`select 1 from pg_locks where not granted`.execute(db)).rows.length > 0);
    return { holding: begun };
  });
  await holding;
  const is = await db.selectFrom('deliveries').selectAll().where('id', '=', claimed.id).executeTakeFirstOrThrow();
  assert.deepEqual([is.state, is.claimed_by, is.due_at], ['pending', null, is.next_attempt_at]);
});

test('a delivery that is held back is due if its resend was asked for meanwhile', async () => {
  const { now, claimed } = await claimedOfDisabled();
  await resendDelivery(db, organization.id, claimed.id, now);
  await holdBack(db, 'here', [claimed], now);
  const is = await db.selectFrom('deliveries').selectAll().where('id', '=', claimed.id).executeTakeFirstOrThrow();
  assert.deepEqual([is.resend_requested, is.claimed_by, is.due_at], [true, null, now]);
});

test('what is under way or was asked for by hand is sent to an endpoint that is disabled at that moment; the rest waits for its own time', async () => {
  const { endpointId, now, claimed } = await claimedOfDisabled();
  const later = new Date(now.getTime() + 60 * minute);
  await queue(endpointId, 3, now);
  const [resent, underWay] = await deliveriesTo(endpointId);
  await db.updateTable('deliveries').set({ next_attempt_at: later }).where('endpoint_id', '=', endpointId).execute();
  await sql`update deliveries set claimed_by = 'another' where id = ${underWay?.id}`.execute(db);
  await db.transaction().execute(async (transaction) => {
    await sendTest(transaction, organization, endpointId, 'session.started', now);
    await resendDelivery(transaction, organization.id, resent?.id ?? '', now);
    // It follows when the attempt under way has ended: due before that, another process would claim it.
    await resendDelivery(transaction, organization.id, underWay?.id ?? '', later);
  });
  await holdBack(db, 'here', [claimed], now);
  assert.deepEqual(await dueAt(endpointId), [null, null, now, now, now]);
  assert.equal(await resumeSome(db, endpointId), false);
  assert.deepEqual(await dueAt(endpointId), [null, null, now, now, now], 'still disabled');
  await enable(endpointId);
  assert.equal(await resumeSome(db, endpointId), false);
  assert.deepEqual(await dueAt(endpointId), [later, later, now, now, now]);
});

test('an endpoint for which many deliveries wait is disabled and enabled without writing them, which is done in small steps', async (t) => {
  const endpointId = await newEndpoint('http://127.0.0.1:1/');
  const clock = stillClock();
  const later = new Date(clock.now().getTime() + 60 * minute);
  await queue(endpointId, 2_500, clock.now());
  await db.updateTable('deliveries').set({ next_attempt_at: later }).where('endpoint_id', '=', endpointId).execute();
  await sql`create table steps (deliveries integer)`.execute(db);
  await sql`create function count_step() returns trigger language plpgsql as
    'begin insert into steps select count(*) from written; return null; end'`.execute(db);
  await sql`create trigger count_steps after update on deliveries referencing new table as written
    for each statement execute function count_step()`.execute(db);
  t.after(() => sql`drop trigger count_steps on deliveries`.execute(db));
  const steps = async () => (await sql<{ deliveries: number }>`select deliveries from steps`.execute(db)).rows.map((row) => row.deliveries);
  await disable(endpointId);
  assert.deepEqual(await steps(), []);
  const courier = createCourier(clock);
  t.after(() => courier.stop());
  await courier.idle();
  assert.deepEqual(new Set(await dueAt(endpointId)), new Set([null]));
  assert.ok((await deliveriesTo(endpointId)).every(({ attempts }) => attempts.length === 0));
  const before = (await steps()).length;
  await enable(endpointId);
  assert.equal((await steps()).length, before);
  await courier.resume(endpointId);
  await until(async () => (await dueAt(endpointId)).every((due) => due?.getTime() === later.getTime()));
  assert.equal(Math.max(...(await steps())), 1_000);
});

test('what is made due while a scan is under way is found by the next one, however long ago its time was', async (t) => {
  const endpointId = await newEndpoint('http://127.0.0.1:1/');
  const clock = stillClock();
  await db.deleteFrom('deliveries').execute();
  await queue(endpointId, 1, new Date(clock.now().getTime() - 60 * minute));
  await db.updateTable('deliveries').set({ due_at: null }).where('endpoint_id', '=', endpointId).execute();
  // The scan has looked, and found nothing, and is told so only after the delivery was made due.
  const answer = Promise.withResolvers<void>();
  const looked = Promise.withResolvers<void>();
  let answers = 0;
  const slow = db.withPlugin({
    transformQuery: ({ node }) => node,
    async transformResult({ result }) {
      answers += 1;
      if (answers === 1) {
        looked.resolve();
        await answer.promise;
      }
      return result;
    },
  });
  const courier = createCourier(clock, { database: { ...database, db: slow } });
  t.after(() => courier.stop());
  courier.wake();
  await looked.promise;
  await courier.resume(endpointId);
  answer.resolve();
  await until(async () => (await deliveriesTo(endpointId))[0]?.attempts.length === 1);
});

test('what a process that ended had not made due yet is made due at the next start', async (t) => {
  const endpointId = await newEndpoint('http://127.0.0.1:1/');
  const clock = stillClock();
  const later = new Date(clock.now().getTime() + minute / 2);
  await queue(endpointId, 3, clock.now());
  await db.updateTable('deliveries').set({ next_attempt_at: later, due_at: null }).where('endpoint_id', '=', endpointId).execute();
  const courier = createCourier(clock);
  t.after(() => courier.stop());
  await courier.start();
  await until(async () => (await dueAt(endpointId)).every((due) => due?.getTime() === later.getTime()));
});
