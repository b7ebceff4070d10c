// What an endpoint is sent, and of what.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import Stripe from 'stripe';
import { createAgent, createOrganization, operate } from '../../support/accounts.ts';
import { startApp } from '../../support/app.ts';
import { createEndpoint, createKeyEvent } from '../../support/webhook-endpoints.ts';
import { type Received, startReceiver } from '../../support/webhook-receiver.ts';

const parley = await startApp({ after }, { settings: { PARLEY_WEBHOOK_ALLOW_PRIVATE: '1' } });

const ofType = (type: string) => (received: Received[]) => received.some((one) => one.body.type === type);

test('a delivery is the documented payload with its headers, and Stripe verifies its signature', async (t) => {
  const org = await createOrganization(parley);
  const receiver = await startReceiver(t);
  const endpoint = await createEndpoint(parley, org, receiver);
  await createKeyEvent(parley, org);
  const [one] = await receiver.until((received) => received.length === 1);
  assert.ok(one);
  assert.deepEqual(Object.keys(one.body), ['id', 'type', 'created_at', 'organization', 'endpoint_id', 'data']);
  assert.match(one.body.id, /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  assert.equal(one.body.type, 'api_key.created');
  assert.match(one.body.created_at, /^\d{4}-\d\d-\d\dT.*\+00:00$/);
  assert.deepEqual(one.body.organization, { id: org.id, slug: org.slug });
  assert.equal(one.body.endpoint_id, endpoint.id);
  assert.deepEqual(Object.keys(one.body.data), ['id', 'prefix', 'name']);
  assert.equal(one.headers['content-type'], 'application/json');
  assert.equal(one.headers['svc-event-id'], one.body.id);
  assert.equal(one.headers['svc-event-type'], 'api_key.created');
  const timestamp = String(one.headers['svc-timestamp']);
  assert.ok(Math.abs(Number(timestamp) - Date.now() / 1_000) < 30);
  const digest = createHmac('sha256', endpoint.secret).update(`${timestamp}.${one.text}`).digest('hex');
  assert.equal(one.headers['svc-signature'], `t=${timestamp},v1=${digest}`);

  const stripe = new Stripe('sk_test_unused');
  const signature = String(one.headers['svc-signature']);
  assert.equal(stripe.webhooks.constructEvent(one.text, signature, endpoint.secret).id, one.body.id);
  assert.throws(() => stripe.webhooks.constructEvent(`${one.text} `, signature, endpoint.secret));
});

test('an endpoint gets only what it subscribes to, and only of its own org', async (t) => {
  const org = await createOrganization(parley);
  const other = await createOrganization(parley);
  const [all, some] = [await startReceiver(t), await startReceiver(t)];
  await createEndpoint(parley, org, all);
  await createEndpoint(parley, org, some, ['invoice.paid']);
  await createKeyEvent(parley, other);
  await createKeyEvent(parley, org);
  await parley.call('POST', `/operator/organizations/${org.slug}/invoices`, {
    key: parley.operatorKey,
    body: { amount_cents: 4_900, status: 'paid' },
  });
  await all.until((received) => received.length === 2);
  await parley.context.courier.idle();
  assert.deepEqual(all.received.map((one) => one.body.type).sort(), ['api_key.created', 'invoice.paid']);
  assert.deepEqual(
    some.received.map((one) => [one.body.type, one.body.data.amount_cents]),
    [['invoice.paid', 4_900]],
  );
});

test('turns and sessions are reported with the data of their type', async (t) => {
  const org = await createOrganization(parley);
  await createAgent(parley, org.key, 'helper', { tools: ['bash'] });
  const receiver = await startReceiver(t);
  await createEndpoint(parley, org, receiver);
  const base = `/${org.slug}/helper/v1/sessions`;
  const session = await parley.call('POST', base, { key: org.key, body: { metadata: { end_user_id: 'ada' } } });
  const { id } = session.body;
  const send = (text: string) => parley.call('POST', `${base}/${id}/messages`, { key: org.key, body: { text } });
  await send('/say hello');
  const refused = await send('/fail overloaded');
  const paused = await send('/tool bash {"command":"echo hi"}');
  // Each is sent on its own: a later one may come first.
  const types = ['session.started', 'turn.completed', 'turn.failed', 'turn.requires_action'];
  const received = await receiver.until((all) => types.every((type) => ofType(type)(all)));
  const dataOf = (type: string) => received.find((one) => one.body.type === type)?.body.data;
  assert.deepEqual(dataOf('session.started'), { session_id: id, agent: 'helper', end_user_id: 'ada' });
  const completed = dataOf('turn.completed');
  assert.deepEqual(Object.keys(completed), ['session_id', 'turn_id', 'agent', 'usage', 'stop_reason']);
  assert.deepEqual([completed.session_id, completed.agent, completed.stop_reason], [id, 'helper', 'end_turn']);
  assert.ok(completed.usage.total_tokens > 0);
  const failed = dataOf('turn.failed');
  assert.deepEqual(Object.keys(failed), ['session_id', 'turn_id', 'agent', 'error']);
  const error = { code: 'overloaded', message: refused.body.detail.message };
  assert.deepEqual([failed.session_id, failed.agent, failed.error], [id, 'helper', error]);
  const asked = dataOf('turn.requires_action');
  assert.deepEqual(Object.keys(asked), ['session_id', 'turn_id', 'request_id', 'tool', 'message']);
  assert.equal(asked.request_id, paused.body.pending_input.request_id);
  await parley.call('DELETE', `${base}/${id}`, { key: org.key });
});

test('a message that waits when its session is stopped is reported as the others are: it ends, interrupted', async (t) => {
  const org = await createOrganization(parley);
  await createAgent(parley, org.key, 'helper');
  const receiver = await startReceiver(t);
  await createEndpoint(parley, org, receiver, ['turn.completed', 'turn.failed']);
  const base = `/${org.slug}/helper/v1`;
  const { id } = (await parley.call('POST', `${base}/sessions`, { key: org.key })).body;
  const managed = `${base}/managed-agents/sessions/${id}`;
  for (const text of ['/delay 60000\n/say held up', '/say never said', '/say nor this'])
    await parley.call('POST', `${managed}/events`, { key: org.key, body: { type: 'user.message', text } });
  await parley.call('DELETE', `${base}/sessions/${id}`, { key: org.key });
  const received = await receiver.until((all) => all.length === 3);
  const { events } = (await parley.call('GET', managed, { key: org.key })).body;
  const ends = events.filter((event: { type: string }) => event.type === 'session.status_idle');
  assert.deepEqual(
    Object.fromEntries(received.map(({ body }) => [body.data.turn_id, body.data])),
    Object.fromEntries(
      ends.map(({ turn_id, usage }: { turn_id: string; usage: unknown }) => [
        turn_id,
        { session_id: id, turn_id, agent: 'helper', usage, stop_reason: 'interrupted' },
      ]),
    ),
  );
});

test('what the operator changes is reported', async (t) => {
  const org = await createOrganization(parley);
  const receiver = await startReceiver(t);
  await createEndpoint(parley, org, receiver);
  await operate(parley, org.slug, { subscription: { plan: 'team', status: 'active' } });
  await operate(parley, org.slug, { subscription: { plan: 'team', status: 'past_due' } });
  await operate(parley, org.slug, { subscription: { plan: 'team', status: 'canceled' } });
  await operate(parley, org.slug, { status: 'suspended' });
  await operate(parley, org.slug, { status: 'active' });
  await parley.call('POST', `/operator/organizations/${org.slug}/invoices`, {
    key: parley.operatorKey,
    body: { amount_cents: 100, status: 'payment_failed' },
  });
  await receiver.until((received) => received.length === 6);
  assert.deepEqual(receiver.received.map((one) => one.body.type).sort(), [
    'invoice.payment_failed',
    'organization.resumed',
    'organization.suspended',
    'subscription.canceled',
    'subscription.created',
    'subscription.updated',
  ]);
});

test('crossing a threshold and exhausting a budget are reported', async (t) => {
  const org = await createOrganization(parley);
  await createAgent(parley, org.key, 'helper');
  const receiver = await startReceiver(t);
  await createEndpoint(parley, org, receiver, ['usage.budget_threshold_reached', 'usage.budget_exhausted']);
  await operate(parley, org.slug, { total_tokens_cap: 20 });
  const session = await parley.call('POST', `/${org.slug}/helper/v1/sessions`, { key: org.key });
  await parley.call('POST', `/${org.slug}/helper/v1/sessions/${session.body.id}/messages`, { key: org.key, body: { text: '/words 60' } });
  await receiver.until(ofType('usage.budget_exhausted'));
  await parley.context.courier.idle();
  assert.deepEqual(
    receiver.received.map((one) => one.body.data.threshold).sort((a, b) => a - b),
    [50, 80, 100],
  );
  assert.ok(receiver.received.every((one) => one.body.data.percent_used >= 100));
});

test('for a day after a rotation both secrets sign, and a second rotation ends the older one', async (t) => {
  const org = await createOrganization(parley);
  const receiver = await startReceiver(t);
  const endpoint = await createEndpoint(parley, org, receiver);
  const { secret } = (await parley.call('POST', `${endpoint.path}/rotate_secret`, { key: org.key })).body;
  await createKeyEvent(parley, org);
  const [one] = await receiver.until((received) => received.length === 1);
  const signature = String(one?.headers['svc-signature']);
  assert.match(signature, /^t=\d+,v1=[0-9a-f]{64},v1=[0-9a-f]{64}$/);
  const stripe = new Stripe('sk_test_unused');
  for (const key of [secret, endpoint.secret]) stripe.webhooks.constructEvent(one?.text ?? '', signature, key);

  const newest = (await parley.call('POST', `${endpoint.path}/rotate_secret`, { key: org.key })).body.secret;
  await createKeyEvent(parley, org);
  const [, two] = await receiver.until((received) => received.length === 2);
  const later = String(two?.headers['svc-signature']);
  assert.match(later, /^t=\d+,v1=[0-9a-f]{64},v1=[0-9a-f]{64}$/);
  for (const key of [newest, secret]) stripe.webhooks.constructEvent(two?.text ?? '', later, key);
  assert.throws(() => stripe.webhooks.constructEvent(two?.text ?? '', later, endpoint.secret));
});

test('an event whose transaction took long to commit is sent too, without anybody asking', async (t) => {
  const org = await createOrganization(parley);
  const receiver = await startReceiver(t);
  const endpoint = await createEndpoint(parley, org, receiver);
  const { db } = parley.context.database;
  await sql`update webhook_endpoints set created_at = created_at - interval '1 hour' where id = ${endpoint.id}`.execute(db);
  await createKeyEvent(parley, org);
  await receiver.until((received) => received.length === 1);
  await sql`insert into webhook_events (org_id, type, data, created_at)
    values (${org.id}, 'api_key.revoked', '{}', now() - interval '1 minute')`.execute(db);
  await receiver.until(ofType('api_key.revoked'));
});
