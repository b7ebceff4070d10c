// The rows of deliveries: what an attempt and the retention make of them.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import { findDelivery } from '../../../src/outbox/deliveries.ts';
import { findEndpoint, updateEndpoint } from '../../../src/outbox/endpoints.ts';
import { finishDeliveries } from '../../../src/outbox/finish.ts';
import { dropOldDeliveries } from '../../../src/outbox/retention.ts';
import { engine } from '../../support/engine.ts';
import { minute, openOutbox } from '../../support/outbox.ts';
import { until } from '../../support/until.ts';

const { db, organization, newEndpoint, queue, deliveriesTo } = await openOutbox({ after });

test('deliveries older than the retention are dropped, but none that is still sent, and no event of a gateway whose reply is owed', async () => {
  const daysAgo = (days: number) => new Date(Date.now() - days * 24 * 60 * minute);
  const endpointId = await newEndpoint('http://127.0.0.1:1/');
  await queue(endpointId, 3, daysAgo(31));
  await queue(endpointId, 1, daysAgo(29));
  const [young, scheduled, ended, heldBack] = await deliveriesTo(endpointId);
  await sql`update deliveries set due_at = null where id in (${ended?.id}, ${heldBack?.id}, ${young?.id})`.execute(db);
  await sql`update deliveries set state = 'failed' where id = ${ended?.id}`.execute(db);
  await sql`insert into gateway_events (org_id, event_id, target, state, event, created_at)
    select ${organization.id}, state, 'submit', state, '{}', ${daysAgo(31)}
    from unnest(array['received', 'admitted', 'done']) state`.execute(db);
  await dropOldDeliveries(db, 30);
  const { rows } = await sql<{ state: string }>`select state from gateway_events`.execute(db);
  assert.deepEqual(rows, [{ state: 'admitted' }]);
  assert.deepEqual(
    (await deliveriesTo(endpointId)).map(({ id }) => id),
    [young?.id, scheduled?.id],
    'one that was recovered is as old as its event, and has a new schedule',
  );
});

test('a result whose delivery is being deleted is left out, and the others of its batch are recorded', {
  skip: engine === 'pglite',
}, async () => {
  const endpointId = await newEndpoint('http://127.0.0.1:1/');
  await queue(endpointId, 2, new Date());
  const rows = await db
    .updateTable('deliveries')
    .set({ claimed_by: 'here' })
    .where('endpoint_id', '=', endpointId)
    .returningAll()
    .execute();
  const sealed = { secret_ciphertext: null, previous_secret_ciphertext: null, previous_secret_until: null };
  const outcome = { ok: true, status: 200, error: null, excerpt: '', durationMs: 1, retryAfter: null };
  const finished = rows.map((row) => {
    return { delivery: { ...row, ...sealed, manual: false, url: '', enabled: true }, outcome, startedAt: new Date() };
  });
  const { recording } = await db.transaction().execute(async (transaction) => {
    await transaction
      .deleteFrom('deliveries')
      .where('id', '=', rows[0]?.id ?? '')
      .execute();
    const begun = finishDeliveries(db, 'here', finished, new Date(), 1_000);
    await until(async () => (await sql`select 1 from pg_locks where not granted`.execute(db)).rows.length > 0);
    return { recording: begun };
  });
  await recording;
  assert.deepEqual(
    (await deliveriesTo(endpointId)).map(({ state }) => state),
    ['delivered'],
  );
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
  await finish({}, [500, 200, 500, 500]);
  assert.equal((await findEndpoint(db, organization.id, endpointId))?.consecutiveFailures, 2, 'only what failed since, and all of that');
  await finish({}, 200);
  const { rows: well } = await endpoint();
  await finish({}, 200);
  assert.deepEqual((await endpoint()).rows, well, 'the row of one that is well is not written again and again');
});

test('an attempt that began before its endpoint was changed or enabled says nothing of it', async () => {
  const endpointId = await newEndpoint('http://127.0.0.1:1/');
  const actor = { orgId: organization.id, at: new Date() };
  const [before, after] = [-1, 1].map((minutes) => new Date(actor.at.getTime() + minutes * minute));
  assert.ok(before && after);
  await queue(endpointId, 4, before);
  const rows = await db
    .updateTable('deliveries')
    .set({ claimed_by: 'here' })
    .where('endpoint_id', '=', endpointId)
    .returningAll()
    .execute();
  const sealed = { secret_ciphertext: null, previous_secret_ciphertext: null, previous_secret_until: null };
  const finish = async (statuses: number[], startedAt: Date) => {
    const finished = statuses.map((status) => {
      const delivery = { ...(rows.pop() ?? assert.fail()), ...sealed, manual: false, url: '', enabled: true };
      return { delivery, outcome: { ok: false, status, error: null, excerpt: '', durationMs: 1, retryAfter: null }, startedAt };
    });
    await finishDeliveries(db, 'here', finished, after, 2);
    const { enabled, consecutiveFailures } = (await findEndpoint(db, organization.id, endpointId)) ?? assert.fail();
    const states = await Promise.all(finished.map(({ delivery }) => findDelivery(db, organization.id, delivery.id)));
    return [enabled, consecutiveFailures, states.map((delivery) => delivery?.state)];
  };
  const changes = { name: undefined, url: 'http://127.0.0.1:2/', eventTypes: undefined };
  await db.transaction().execute((transaction) => updateEndpoint(transaction, actor, endpointId, changes));
  assert.deepEqual(await finish([500, 410], before), [true, 0, ['pending', 'pending']]);
  assert.deepEqual(await finish([500], actor.at), [true, 1, ['pending']]);
  assert.deepEqual(await finish([410], actor.at), [false, 2, ['failed']]);
});
