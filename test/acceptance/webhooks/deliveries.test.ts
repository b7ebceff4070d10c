// What becomes of deliveries: attempts, failures, tests, resends and recovery, and who may see them.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import { createAgent, createKey, createOrganization } from '../../support/accounts.ts';
import { startApp } from '../../support/app.ts';
import { engine } from '../../support/engine.ts';
import { until } from '../../support/until.ts';
import { createEndpoint, createKeyEvent, deliveriesOf } from '../../support/webhook-endpoints.ts';
import { startReceiver } from '../../support/webhook-receiver.ts';

const settings = { PARLEY_WEBHOOK_ALLOW_PRIVATE: '1', PARLEY_WEBHOOK_MAX_FAILURES: '3' };
const parley = await startApp({ after }, { settings });

test('every route needs its scope, and an endpoint of another org is not there', async (t) => {
  const org = await createOrganization(parley);
  const { key } = org;
  const { path } = await createEndpoint(parley, org, await startReceiver(t));
  const stranger = (await createOrganization(parley)).key;
  const reader = await createKey(parley, key, ['webhooks:read']);
  const writer = await createKey(parley, key, ['webhooks:write']);
  const delivery = (await parley.call('POST', `${path}/test`, { key })).body.delivery;
  const routes = [
    ['GET', path, undefined, 'webhooks:read'],
    ['GET', `${path}/deliveries`, undefined, 'webhooks:read'],
    ['GET', `/api/webhook_deliveries/${delivery.id}`, undefined, 'webhooks:read'],
    ['PATCH', path, { name: 'Other' }, 'webhooks:write'],
    ['POST', `${path}/enable`, undefined, 'webhooks:write'],
    ['POST', `${path}/disable`, undefined, 'webhooks:write'],
    ['POST', `${path}/test`, undefined, 'webhooks:write'],
    ['POST', `${path}/rotate_secret`, undefined, 'webhooks:write'],
    ['POST', `${path}/recover`, { from: '2026-01-01T00:00:00Z' }, 'webhooks:write'],
    ['POST', `/api/webhook_deliveries/${delivery.id}/resend`, undefined, 'webhooks:write'],
    ['DELETE', path, undefined, 'webhooks:write'],
  ] as const;
  for (const [method, route, body, scope] of routes) {
    const wrong = await parley.call(method, route, { key: scope === 'webhooks:read' ? writer : reader, body });
    assert.deepEqual([wrong.status, wrong.body], [403, { detail: `Missing scope: ${scope}` }], `${method} ${route}`);
    const foreign = await parley.call(method, route, { key: stranger, body });
    assert.deepEqual([foreign.status, foreign.text], [404, '{"detail":"Not Found"}'], `${method} ${route}`);
    assert.equal((await parley.call(method, route, { body })).status, 401, `${method} ${route}`);
  }
  for (const id of ['0', 'x', '99999999999999999999', '-1'])
    assert.equal((await parley.call('GET', `/api/webhook_endpoints/${id}`, { key })).text, '{"detail":"Not Found"}');
  for (const id of ['1', '00000000-0000-0000-0000-000000000000'])
    assert.equal((await parley.call('GET', `/api/webhook_deliveries/${id}`, { key })).text, '{"detail":"Not Found"}');
});

test('a test delivery is one attempt with example data, also to a disabled endpoint', async (t) => {
  const org = await createOrganization(parley);
  const receiver = await startReceiver(t);
  const endpoint = await createEndpoint(parley, org, receiver, ['turn.failed']);
  await parley.call('POST', `${endpoint.path}/disable`, { key: org.key });
  receiver.answer = (_request, response) => setTimeout(() => response.writeHead(500).end('thanks'), 30);
  const sent = await parley.call('POST', `${endpoint.path}/test`, { key: org.key });
  assert.equal(sent.status, 202);
  assert.deepEqual([sent.body.delivery.test, sent.body.delivery.state, sent.body.delivery.event_type], [true, 'pending', 'turn.failed']);
  const [one] = await receiver.until((received) => received.length === 1);
  assert.equal(one?.body.data.test, true);
  assert.equal(one?.headers['svc-event-id'], sent.body.delivery.id);
  const [delivery] = await deliveriesOf(parley, org, endpoint);
  assert.deepEqual([delivery.state, delivery.next_attempt_at, delivery.attempts.length], ['failed', null, 1]);
  assert.deepEqual(
    [delivery.attempts[0].status, delivery.attempts[0].manual, delivery.attempts[0].response_excerpt],
    [500, true, 'thanks'],
  );
  const { duration_ms } = delivery.attempts[0];
  assert.ok(Number.isInteger(duration_ms) && duration_ms >= 25, `${duration_ms} ms`);
  const { webhook_endpoint: now } = (await parley.call('GET', endpoint.path, { key: org.key })).body;
  assert.equal(now.consecutive_failures, 0);
  const named = await parley.call('POST', `${endpoint.path}/test`, { key: org.key, body: { event_type: 'invoice.paid' } });
  assert.equal(named.body.delivery.event_type, 'invoice.paid');
  assert.equal((await parley.call('POST', `${endpoint.path}/test`, { key: org.key, body: { event_type: 'no' } })).status, 422);
});

test('a resend sends the same bytes again and never counts', async (t) => {
  const org = await createOrganization(parley);
  const receiver = await startReceiver(t);
  const endpoint = await createEndpoint(parley, org, receiver);
  await createKeyEvent(parley, org);
  await receiver.until((received) => received.length === 1);
  const [delivery] = await deliveriesOf(parley, org, endpoint);
  assert.deepEqual([delivery.state, delivery.attempts.length], ['delivered', 1]);
  for (const time of [delivery.created_at, delivery.delivered_at]) assert.ok(Math.abs(Date.parse(time) - Date.now()) < 60_000, time);
  receiver.answer = 500;
  const resent = await parley.call('POST', `/api/webhook_deliveries/${delivery.id}/resend`, { key: org.key });
  assert.deepEqual([resent.status, resent.body.delivery.id], [202, delivery.id]);
  const [first, second] = await receiver.until((received) => received.length === 2);
  assert.equal(second?.text, first?.text);
  assert.equal(second?.headers['svc-event-id'], first?.headers['svc-event-id']);
  const [after] = await deliveriesOf(parley, org, endpoint);
  assert.deepEqual([after.state, after.attempts.map((made: { manual: boolean }) => made.manual)], ['delivered', [false, true]]);
  assert.equal(after.delivered_at, delivery.delivered_at);
  const { webhook_endpoint: now } = (await parley.call('GET', endpoint.path, { key: org.key })).body;
  assert.equal(now.consecutive_failures, 0);
});

test('a delivery with a hundred attempts is not sent again', async (t) => {
  const org = await createOrganization(parley);
  const receiver = await startReceiver(t);
  const endpoint = await createEndpoint(parley, org, receiver);
  await createKeyEvent(parley, org);
  const made = async () => (await deliveriesOf(parley, org, endpoint))[0];
  await until(async () => (await made())?.attempts.length === 1);
  const { id } = await made();
  await sql`insert into delivery_attempts (delivery_id, number, manual, started_at, duration_ms, response_excerpt)
    select ${id}, n, true, now(), 1, '' from generate_series(2, 99) n`.execute(parley.context.database.db);
  const resend = () => parley.call('POST', `/api/webhook_deliveries/${id}/resend`, { key: org.key });
  assert.equal((await resend()).status, 202);
  await until(async () => (await made()).attempts.length === 100);
  const { status, body } = await resend();
  assert.deepEqual([status, body.detail], [409, 'A delivery is not sent again after 100 attempts']);
});

test('a redirect is not followed and counts as a failure', async (t) => {
  const org = await createOrganization(parley);
  const [receiver, elsewhere] = [await startReceiver(t), await startReceiver(t)];
  const endpoint = await createEndpoint(parley, org, receiver);
  receiver.answer = (_one, response) => response.writeHead(307, { location: elsewhere.url }).end();
  await createKeyEvent(parley, org);
  await receiver.until((received) => received.length === 1);
  const [delivery] = await deliveriesOf(parley, org, endpoint);
  const [{ status, error }] = delivery.attempts;
  assert.deepEqual([delivery.state, status, error], ['pending', 307, 'Redirects are not followed.']);
  const wait = Date.parse(delivery.next_attempt_at) - Date.parse(delivery.attempts[0].started_at);
  assert.ok(wait >= 4_000 && wait <= 7_000, String(wait));
  assert.equal(elsewhere.received.length, 0);
  const failures = async () => (await parley.call('GET', endpoint.path, { key: org.key })).body.webhook_endpoint.consecutive_failures;
  assert.equal(await failures(), 1);
  receiver.answer = 200;
  await parley.call('POST', `/api/webhook_deliveries/${delivery.id}/resend`, { key: org.key });
  await receiver.until((received) => received.length === 2);
  const [resent] = await deliveriesOf(parley, org, endpoint);
  assert.deepEqual([resent.state, await failures()], ['delivered', 1], 'a resend does not count, also if it succeeds');
});

test('410 disables the endpoint at once, and it is in the audit log', async (t) => {
  const org = await createOrganization(parley);
  const receiver = await startReceiver(t);
  const endpoint = await createEndpoint(parley, org, receiver);
  receiver.answer = 410;
  await createKeyEvent(parley, org);
  await receiver.until((received) => received.length === 1);
  const [delivery] = await deliveriesOf(parley, org, endpoint);
  assert.equal(delivery.state, 'failed');
  const { webhook_endpoint: now } = (await parley.call('GET', endpoint.path, { key: org.key })).body;
  assert.deepEqual([now.enabled, now.disabled_reason], [false, 'The destination answered 410 Gone.']);
  const audit = await parley.call('GET', '/api/audit_events?event_action=webhook_endpoint.disabled', { key: org.key });
  assert.deepEqual(
    audit.body.data.map((event: { actor_email: unknown; api_key_prefix: unknown }) => [event.actor_email, event.api_key_prefix]),
    [[null, null]],
  );
  await parley.call('POST', `${endpoint.path}/enable`, { key: org.key });
  await parley.call('POST', `${endpoint.path}/test`, { key: org.key });
  await receiver.until((received) => received.length === 2);
  await deliveriesOf(parley, org, endpoint);
  const { webhook_endpoint: tested } = (await parley.call('GET', endpoint.path, { key: org.key })).body;
  assert.deepEqual([tested.enabled, tested.consecutive_failures], [false, 0], 'whoever asks, and a test does not count');
});

test('consecutive failures disable the endpoint; enabled again, it gets what waited and what a range holds', async (t) => {
  const org = await createOrganization(parley);
  const receiver = await startReceiver(t);
  const endpoint = await createEndpoint(parley, org, receiver, ['api_key.created']);
  receiver.answer = 503;
  const from = new Date(Date.now() - 60_000).toISOString();
  for (let count = 0; count < 3; count += 1) {
    await createKeyEvent(parley, org);
    await parley.context.courier.idle();
  }
  const { webhook_endpoint: tripped } = (await parley.call('GET', endpoint.path, { key: org.key })).body;
  assert.deepEqual([tripped.enabled, tripped.consecutive_failures, tripped.disabled_reason], [false, 3, '3 consecutive failures.']);
  // While it is disabled nothing is sent, but the event is kept for a recovery.
  await createKeyEvent(parley, org);
  await parley.context.courier.idle();
  assert.equal(receiver.received.length, 3);
  receiver.answer = 200;
  const { webhook_endpoint: enabled } = (await parley.call('POST', `${endpoint.path}/enable`, { key: org.key })).body;
  assert.deepEqual([enabled.enabled, enabled.consecutive_failures, enabled.disabled_reason], [true, 0, null]);
  const recovery = { key: org.key, body: { from }, headers: { 'idempotency-key': 'recovery' } };
  const recovered = await parley.call('POST', `${endpoint.path}/recover`, recovery);
  assert.deepEqual([recovered.status, recovered.body], [202, { recovered: 1 }]);
  await receiver.until((received) => received.length === 4);
  assert.equal(new Set(receiver.received.map((one) => one.body.id)).size, 4);
  const repeated = await parley.call('POST', `${endpoint.path}/recover`, recovery);
  assert.deepEqual([repeated.status, repeated.body, repeated.headers['idempotent-replayed']], [202, { recovered: 1 }, 'true']);
  const again = await parley.call('POST', `${endpoint.path}/recover`, { key: org.key, body: { from } });
  assert.deepEqual(again.body, { recovered: 0 });
  const beyond = [{ from: '0001-01-01T00:00:00+01:00' }, { from, to: '9999-12-31T23:59:59-01:00' }];
  for (const body of [{}, { from: 'yesterday' }, { from: '2026-02-01T00:00:00Z', to: '2026-01-01T00:00:00Z' }, ...beyond])
    assert.equal((await parley.call('POST', `${endpoint.path}/recover`, { key: org.key, body })).status, 422);
});

test('a time without an offset is in UTC, wherever the server is', async (t) => {
  const org = await createOrganization(parley);
  const endpoint = await createEndpoint(parley, org, await startReceiver(t));
  const zone = process.env.TZ;
  process.env.TZ = 'America/New_York';
  t.after(() => {
    if (zone === undefined) delete process.env.TZ;
    else process.env.TZ = zone;
  });
  const lately = new Date(Date.now() - 60_000).toISOString().slice(0, -1);
  const recovered = await parley.call('POST', `${endpoint.path}/recover`, { key: org.key, body: { from: lately } });
  assert.deepEqual([recovered.status, recovered.body], [202, { recovered: 0 }]);
});

const besides = { skip: engine === 'pglite' && 'the embedded engine does one after the other' };

test('an endpoint is changed while deliveries are being added to it, and nobody waits for the other', besides, async (t) => {
  const org = await createOrganization(parley);
  const endpoint = await createEndpoint(parley, org, await startReceiver(t), ['api_key.created']);
  const { db } = parley.context.database;
  await db.transaction().execute(async (adding) => {
    await sql`select 1 from webhook_endpoints where id = ${endpoint.id} for key share`.execute(adding);
    const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(adding);
    const blocked = sql`select 1 from pg_stat_activity where ${rows[0]?.pid}::integer = any (pg_blocking_pids(pid))`;
    let isDone = false;
    const watch = until(async () => isDone || (await blocked.execute(db)).rows.length > 0).then(() => assert.ok(isDone, 'somebody waits'));
    const changes = async () => {
      for (const verb of ['disable', 'enable', 'test', 'recover']) {
        const body = verb === 'recover' ? { from: '2026-01-01T00:00:00Z' } : undefined;
        assert.ok((await parley.call('POST', `${endpoint.path}/${verb}`, { key: org.key, body })).status < 300, verb);
      }
    };
    await Promise.race([changes(), watch]);
    isDone = true;
    await watch;
  });
  assert.equal((await deliveriesOf(parley, org, endpoint)).length, 1);
});

test('an endpoint that is deleted at that moment is not there: to a test and to a recovery', besides, async (t) => {
  const org = await createOrganization(parley);
  const endpoint = await createEndpoint(parley, org, await startReceiver(t), ['api_key.created']);
  const { db } = parley.context.database;
  await parley.call('POST', `${endpoint.path}/disable`, { key: org.key });
  await createKeyEvent(parley, org);
  await parley.context.courier.idle();
  const answers = Promise.withResolvers<{ text: string }[]>();
  await db.transaction().execute(async (deleting) => {
    await deleting.deleteFrom('webhook_endpoints').where('id', '=', endpoint.id).execute();
    const calls = [{ verb: 'test' }, { verb: 'recover', body: { from: '2026-01-01T00:00:00Z' } }];
    const made = calls.map(({ verb, body }) => parley.call('POST', `${endpoint.path}/${verb}`, { key: org.key, body }));
    Promise.all(made).then(answers.resolve, answers.reject);
    const waiting = sql`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    await until(async () => (await waiting.execute(db)).rows.length === made.length);
  });
  for (const { text } of await answers.promise) assert.equal(text, '{"detail":"Not Found"}');
});

test('turns that end while the endpoint is disabled are there for a recovery', async (t) => {
  const org = await createOrganization(parley);
  await createAgent(parley, org.key, 'helper', { tools: ['bash'] });
  const receiver = await startReceiver(t);
  const endpoint = await createEndpoint(parley, org, receiver, ['turn.completed', 'turn.requires_action']);
  await parley.call('POST', `${endpoint.path}/disable`, { key: org.key });
  const from = new Date(Date.now() - 60_000).toISOString();
  const base = `/${org.slug}/helper/v1/sessions`;
  const { id } = (await parley.call('POST', base, { key: org.key, body: {} })).body;
  await parley.call('POST', `${base}/${id}/messages`, { key: org.key, body: { text: '/say hello' } });
  await parley.call('POST', `${base}/${id}/messages`, { key: org.key, body: { text: '/tool bash {"command":"echo hi"}' } });
  // What is made a delivery of only after the endpoint is enabled needs no recovery.
  await parley.context.courier.idle();
  await parley.call('POST', `${endpoint.path}/enable`, { key: org.key });
  const recovered = await parley.call('POST', `${endpoint.path}/recover`, { key: org.key, body: { from } });
  assert.deepEqual(recovered.body, { recovered: 2 });
  const received = await receiver.until((all) => all.length === 2);
  assert.deepEqual(received.map((one) => one.body.type).sort(), ['turn.completed', 'turn.requires_action']);
});

test('deliveries are listed newest first, in pages, and by state', async (t) => {
  const org = await createOrganization(parley);
  const receiver = await startReceiver(t);
  const endpoint = await createEndpoint(parley, org, receiver);
  for (let count = 0; count < 3; count += 1) await createKeyEvent(parley, org);
  await receiver.until((received) => received.length === 3);
  const all = await deliveriesOf(parley, org, endpoint);
  assert.equal(all.length, 3);
  const first = await parley.call('GET', `${endpoint.path}/deliveries?limit=2`, { key: org.key });
  const rest = await parley.call('GET', `${endpoint.path}/deliveries?limit=2&cursor=${first.body.next_cursor}`, { key: org.key });
  assert.deepEqual([...first.body.data, ...rest.body.data], all);
  assert.equal(rest.body.next_cursor, null);
  const failed = await parley.call('GET', `${endpoint.path}/deliveries?state=failed`, { key: org.key });
  assert.deepEqual(failed.body, { data: [], next_cursor: null });
  for (const query of ['state=lost', 'cursor=nonsense', 'limit=x'])
    assert.equal((await parley.call('GET', `${endpoint.path}/deliveries?${query}`, { key: org.key })).status, 422, query);
  const single = await parley.call('GET', `/api/webhook_deliveries/${all[0].id}`, { key: org.key });
  assert.deepEqual(single.body, { delivery: all[0] });
  await sql`insert into delivery_attempts (delivery_id, number, manual, started_at, duration_ms, response_excerpt)
    select id, n, true, now(), 1, '' from deliveries, generate_series(2, 400) n where endpoint_id = ${endpoint.id}`.execute(
    parley.context.database.db,
  );
  const long = await parley.call('GET', `${endpoint.path}/deliveries`, { key: org.key });
  const end = await parley.call('GET', `${endpoint.path}/deliveries?cursor=${long.body.next_cursor}`, { key: org.key });
  const attempts = [long, end].map(({ body }) => body.data.map((delivery: { attempts: unknown[] }) => delivery.attempts.length));
  assert.deepEqual([attempts, end.body.next_cursor], [[[400, 400], [400]], null], 'a page holds a thousand attempts');
});
