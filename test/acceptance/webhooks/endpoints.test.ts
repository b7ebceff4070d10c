// Webhook endpoints over the management API.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import { createKey, createOrganization } from '../../support/accounts.ts';
import { startApp } from '../../support/app.ts';

/** A literal, which no name server is asked about; nothing is sent there. */
const url = 'https://93.184.216.34/parley';
const notFound = '{"detail":"Not Found"}';
const eventTypes = [
  'session.started',
  'turn.completed',
  'turn.failed',
  'turn.requires_action',
  'subscription.created',
  'subscription.updated',
  'subscription.canceled',
  'invoice.paid',
  'invoice.payment_failed',
  'usage.budget_threshold_reached',
  'usage.budget_exhausted',
  'organization.suspended',
  'organization.resumed',
  'api_key.created',
  'api_key.revoked',
];

const parley = await startApp({ after });

async function create(key: string, body: Record<string, unknown> = { name: 'Hooks', url }) {
  const answer = await parley.call('POST', '/api/webhook_endpoints', { key, body });
  assert.equal(answer.status, 201, answer.text);
  return answer.body;
}

test('creating an endpoint shows its secret once, and never again', async () => {
  const { key } = await createOrganization(parley);
  const { webhook_endpoint: endpoint, secret } = await create(key, {
    name: 'Hooks',
    url,
    event_types: ['turn.completed', 'turn.completed'],
  });
  assert.match(secret, /^whsec_svc_[A-Za-z0-9_-]{43}$/);
  assert.deepEqual(Object.keys(endpoint).sort(), [
    'consecutive_failures',
    'created_at',
    'disabled_reason',
    'enabled',
    'event_types',
    'id',
    'name',
    'previous_secret_expires_at',
    'updated_at',
    'url',
  ]);
  assert.deepEqual(
    [endpoint.name, endpoint.url, endpoint.event_types, endpoint.enabled, endpoint.consecutive_failures],
    ['Hooks', url, ['turn.completed'], true, 0],
  );
  assert.match(endpoint.created_at, /^\d{4}-.*\+00:00$/);
  const path = `/api/webhook_endpoints/${endpoint.id}`;
  const fetched = await parley.call('GET', path, { key });
  assert.deepEqual(fetched.body, { webhook_endpoint: endpoint });
  const list = await parley.call('GET', '/api/webhook_endpoints', { key });
  assert.deepEqual(list.body, { event_types: eventTypes, webhook_endpoints: [endpoint] });
  const audit = await parley.call('GET', '/api/audit_events', { key });
  for (const { text } of [fetched, list, audit]) assert.ok(!text.includes(secret));
});

test('any key gets the event types; the endpoints need webhooks:read', async () => {
  const { key } = await createOrganization(parley);
  const poor = await createKey(parley, key, []);
  await create(key);
  const answer = await parley.call('GET', '/api/webhook_endpoints', { key: poor });
  assert.deepEqual([answer.status, answer.body], [200, { event_types: eventTypes, webhook_endpoints: [] }]);
  assert.equal((await parley.call('GET', '/api/webhook_endpoints')).status, 401);
});

test('a bad body is 422 and writes nothing', async () => {
  const { key } = await createOrganization(parley);
  const bad = [
    {},
    { name: 'Hooks' },
    { url },
    { name: '', url },
    { name: 'Hooks', url: 'not a url' },
    { name: 'Hooks', url, event_types: ['turn.exploded'] },
    { name: 'Hooks', url, event_types: 'turn.completed' },
    { name: 'Hooks', url, secret: 'mine' },
    { name: 1, url },
  ];
  for (const body of bad) {
    const answer = await parley.call('POST', '/api/webhook_endpoints', { key, body });
    assert.equal(answer.status, 422, JSON.stringify(body));
    assert.ok(answer.body.detail);
  }
  assert.deepEqual((await parley.call('GET', '/api/webhook_endpoints', { key })).body.webhook_endpoints, []);
});

test('a destination that is not HTTPS and public is refused, when created and when changed', async () => {
  const { key } = await createOrganization(parley);
  const { webhook_endpoint: endpoint } = await create(key);
  const refused = [
    'http://hooks.example.com/',
    'https://localhost/',
    'https://127.0.0.1/',
    'https://2130706433/',
    'https://0x7f.1/',
    'https://10.0.0.8/',
    'https://169.254.169.254/latest/meta-data',
    'https://100.64.0.1/',
    'https://[::1]/',
    'https://[::ffff:10.0.0.1]/',
    'https://[64:ff9b::a00:1]/',
    'https://user:secret@hooks.example.com/',
    'https://hooks.example.com:22/',
    'https://intranet/',
    'https://printer.local/',
    'ftp://hooks.example.com/',
  ];
  for (const target of refused) {
    const created = await parley.call('POST', '/api/webhook_endpoints', { key, body: { name: 'Hooks', url: target } });
    assert.equal(created.status, 422, target);
    assert.equal(created.body.detail.error, 'destination_refused', target);
    const changed = await parley.call('PATCH', `/api/webhook_endpoints/${endpoint.id}`, { key, body: { url: target } });
    assert.equal(changed.status, 422, target);
  }
  const list = await parley.call('GET', '/api/webhook_endpoints', { key });
  assert.deepEqual(list.body.webhook_endpoints, [endpoint]);
  const absent = await parley.call('PATCH', '/api/webhook_endpoints/999999', { key, body: { url: 'https://127.0.0.1/' } });
  assert.deepEqual([absent.status, absent.text], [404, notFound]);
});

test('an endpoint is changed, disabled, enabled, rotated and deleted, and each is in the audit log', async () => {
  const { key } = await createOrganization(parley);
  const { webhook_endpoint: endpoint, secret } = await create(key);
  const path = `/api/webhook_endpoints/${endpoint.id}`;
  const changed = await parley.call('PATCH', path, { key, body: { name: 'Renamed', event_types: ['invoice.paid'] } });
  assert.deepEqual([changed.status, changed.body.webhook_endpoint.name, changed.body.webhook_endpoint.url], [200, 'Renamed', url]);
  assert.deepEqual(changed.body.webhook_endpoint.event_types, ['invoice.paid']);
  const disable = () => parley.call('POST', `${path}/disable`, { key, headers: { 'idempotency-key': 'disable' } });
  const disabled = await disable();
  assert.deepEqual([disabled.status, disabled.body.webhook_endpoint.enabled], [200, false]);
  assert.equal((await parley.call('POST', `${path}/disable`, { key })).body.webhook_endpoint.enabled, false);
  await parley.call('POST', `${path}/enable`, { key });
  const enabled = await parley.call('POST', `${path}/enable`, { key });
  assert.deepEqual([enabled.body.webhook_endpoint.enabled, enabled.body.webhook_endpoint.disabled_reason], [true, null]);
  assert.deepEqual((await disable()).body, disabled.body);
  assert.deepEqual(
    (await parley.call('GET', path, { key })).body,
    enabled.body,
    'a repetition takes back nothing that came after the first',
  );
  const rotated = await parley.call('POST', `${path}/rotate_secret`, { key });
  assert.equal(rotated.status, 200);
  assert.match(rotated.body.secret, /^whsec_svc_/);
  assert.notEqual(rotated.body.secret, secret);
  const overlap = Date.parse(rotated.body.webhook_endpoint.previous_secret_expires_at) - Date.now();
  assert.ok(Math.abs(overlap - 86_400_000) < 60_000);
  assert.equal((await parley.call('DELETE', path, { key })).status, 204);
  assert.equal((await parley.call('GET', path, { key })).text, notFound);
  assert.equal((await parley.call('DELETE', path, { key })).text, notFound);
  const audit = (await parley.call('GET', '/api/audit_events?limit=7', { key })).body.data.slice(1);
  const recorded = audit.map((event: { action: string; subject_type: string; subject_id: string; metadata: unknown }) => {
    assert.deepEqual([event.subject_type, event.subject_id], ['webhook_endpoint', String(endpoint.id)]);
    return [event.action, event.metadata];
  });
  assert.deepEqual(recorded, [
    ['webhook_endpoint.deleted', { name: 'Renamed', host: '93.184.216.34' }],
    ['webhook_endpoint.secret_rotated', { name: 'Renamed' }],
    ['webhook_endpoint.enabled', { name: 'Renamed' }],
    ['webhook_endpoint.disabled', { name: 'Renamed', reason: 'Disabled by hand.' }],
    ['webhook_endpoint.updated', { changes: { name: 'Renamed', event_types: ['invoice.paid'] } }],
    ['webhook_endpoint.created', { name: 'Hooks', host: '93.184.216.34', event_types: [] }],
  ]);
});

test('of the URL, which may contain a secret, the audit log has the host', async () => {
  const { key } = await createOrganization(parley);
  const { webhook_endpoint: endpoint } = await create(key, { name: 'Chat', url: `${url}/services/T0/s3cr3t` });
  const path = `/api/webhook_endpoints/${endpoint.id}`;
  assert.equal((await parley.call('PATCH', path, { key, body: { url: 'https://93.184.216.35:8443/?token=s3cr3t' } })).status, 200);
  assert.equal((await parley.call('DELETE', path, { key })).status, 204);
  const audit = await parley.call('GET', '/api/audit_events?limit=4', { key });
  assert.doesNotMatch(audit.text, /s3cr3t/);
  const recorded = audit.body.data.slice(1).map((event: { metadata: unknown }) => event.metadata);
  assert.deepEqual(recorded, [
    { name: 'Chat', host: '93.184.216.35:8443' },
    { changes: { host: '93.184.216.35:8443' } },
    { name: 'Chat', host: '93.184.216.34', event_types: [] },
  ]);
});

test('a create with an Idempotency-Key is made once and gives its secret again', async () => {
  const { key } = await createOrganization(parley);
  const call = { key, body: { name: 'Hooks', url }, headers: { 'idempotency-key': 'once' } };
  const first = await parley.call('POST', '/api/webhook_endpoints', call);
  const second = await parley.call('POST', '/api/webhook_endpoints', call);
  assert.deepEqual([second.status, second.body], [201, first.body]);
  assert.equal(second.headers['idempotent-replayed'], 'true');
  assert.equal((await parley.call('GET', '/api/webhook_endpoints', { key })).body.webhook_endpoints.length, 1);
});

test('an endpoint with a long history is deleted in small steps, which hold nobody up', async (t) => {
  const { key, id: orgId } = await createOrganization(parley);
  const { webhook_endpoint: endpoint } = await create(key);
  const { db } = parley.context.database;
  await sql`insert into deliveries (id, org_id, lane, endpoint_id, type, body, state, created_at)
    select gen_random_uuid(), ${orgId}, 'past', ${endpoint.id}, 'turn.completed', '{}', 'delivered', now() from generate_series(1, 2500)`.execute(
    db,
  );
  await sql`create table steps (deliveries integer)`.execute(db);
  await sql`create function count_step() returns trigger language plpgsql as
    'begin insert into steps select count(*) from gone; return null; end'`.execute(db);
  await sql`create trigger count_steps after delete on deliveries referencing old table as gone
    for each statement execute function count_step()`.execute(db);
  t.after(() => sql`drop trigger count_steps on deliveries`.execute(db));
  assert.equal((await parley.call('DELETE', `/api/webhook_endpoints/${endpoint.id}`, { key })).status, 204);
  const { rows } = await sql`select sum(deliveries)::integer as total, max(deliveries) as most from steps`.execute(db);
  assert.deepEqual(rows, [{ total: 2500, most: 1000 }]);
});
