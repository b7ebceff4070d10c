import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import { auditActions, createAgent, createDeadEndpoint, createOrganization, operate, webhookEvents } from '../../support/accounts.ts';
import { startApp } from '../../support/app.ts';
import { engine } from '../../support/engine.ts';
import { until } from '../../support/until.ts';

const parley = await startApp({ after }, { settings: { PARLEY_WEBHOOK_ALLOW_PRIVATE: '1' } });

const operator = (method: 'GET' | 'POST' | 'PATCH', path: string, body?: unknown) =>
  parley.call(method, path, { key: parley.operatorKey, body });

async function withEndpoint(slug: string) {
  const organization = await createOrganization(parley, slug);
  await createDeadEndpoint(parley, organization.key);
  return organization;
}

test('an org comes with a key that can do everything', async () => {
  const created = await operator('POST', '/operator/organizations', { slug: 'fresh', name: 'Fresh Ltd' });
  assert.equal(created.status, 201);
  assert.deepEqual([created.body.organization.slug, created.body.organization.name], ['fresh', 'Fresh Ltd']);
  assert.match(created.body.api_key, /^svc_live_/);
  const budget = await parley.call('GET', '/api/budget', { key: created.body.api_key });
  assert.equal(budget.status, 200);
  const list = await operator('GET', '/operator/organizations');
  assert.ok(list.body.organizations.some((organization: { slug: string }) => organization.slug === 'fresh'));
  assert.equal((await operator('POST', '/operator/organizations', { slug: 'fresh' })).status, 409);
  assert.equal((await operator('POST', '/operator/organizations', { slug: 'nameless' })).body.organization.name, 'nameless');
  for (const slug of ['v1', 'api', 'Upper', '', 'a b', '-x']) {
    const refused = await operator('POST', '/operator/organizations', { slug });
    assert.deepEqual([refused.status, /^slug: /.test(refused.body.detail)], [422, true], slug);
  }
});

test('the operator routes take the operator key and nothing else, and are in no document', async () => {
  for (const key of [undefined, parley.apiKey, 'svc_operator_wrongwrongwrongwrong']) {
    for (const [method, path] of [
      ['GET', '/operator/organizations'],
      ['POST', '/operator/organizations'],
      ['PATCH', '/operator/organizations/demo'],
      ['POST', '/operator/organizations/demo/invoices'],
    ] as const) {
      const answer = await parley.call(method, path, { key });
      assert.deepEqual([answer.status, answer.text], [401, '{"detail":"Unauthorized"}'], `${method} ${path}`);
    }
  }
  const { body } = await parley.call('GET', '/openapi.json');
  assert.deepEqual(
    Object.keys(body.paths).filter((path) => /operator|auth|dashboard|healthz|account/.test(path)),
    [],
  );
  assert.equal((await operator('PATCH', '/operator/organizations/nobody', { status: 'active' })).status, 404);
  assert.equal((await operator('PATCH', '/operator/organizations/nobody', { status: 'unheard of' })).status, 404);
  assert.equal((await operator('PATCH', '/operator/organizations/demo', { status: 'gone' })).status, 422);
});

test('a suspended org is refused everywhere, at once, and is back when it is resumed', async () => {
  const { id, slug, key } = await withEndpoint('tenant');
  await createAgent(parley, key, 'desk');
  const { body } = await parley.call('POST', '/api/agents/desk/session_tokens', { key, body: {} });
  await operate(parley, slug, { status: 'suspended' });
  for (const [method, path] of [
    ['GET', '/api/agents'],
    ['GET', '/v1/sessions/ses_x'],
    ['POST', '/tenant/desk/v1/sessions'],
    ['POST', '/tenant/nobody/v1/sessions'],
    ['GET', '/api/audit_events'],
  ] as const) {
    const answer = await parley.call(method, path, { key });
    assert.deepEqual([answer.status, answer.text], [403, '{"detail":"Organization suspended"}'], path);
  }
  const managed = await parley.call('GET', '/tenant/desk/v1/managed-agents/sessions?end_user=x', { key: body.token });
  assert.deepEqual([managed.status, managed.text], [403, '{"detail":"Organization suspended"}'], 'a session token too');
  await operate(parley, slug, { status: 'suspended' });
  await operate(parley, slug, { status: 'active' });
  assert.equal((await parley.call('GET', '/api/agents', { key })).status, 200);
  assert.deepEqual(await webhookEvents(parley, id), [
    { type: 'organization.suspended', data: { status: 'suspended' } },
    { type: 'organization.resumed', data: { status: 'active' } },
  ]);
  const actions = await auditActions(parley, key);
  assert.deepEqual(
    actions.filter((action) => action.startsWith('organization.')),
    ['organization.resumed', 'organization.suspended'],
  );
});

test('the first subscription is created, later ones updated, a cancelled one canceled', async () => {
  const { id, slug, key } = await withEndpoint('subscriber');
  await operate(parley, slug, { subscription: { plan: 'pro', status: 'active' } });
  await operate(parley, slug, { subscription: { plan: 'team', status: 'past_due' } });
  await operate(parley, slug, { subscription: { plan: 'team', status: 'canceled' } });
  assert.deepEqual(await webhookEvents(parley, id), [
    { type: 'subscription.created', data: { plan: 'pro', status: 'active' } },
    { type: 'subscription.updated', data: { plan: 'team', status: 'past_due' } },
    { type: 'subscription.canceled', data: { plan: 'team', status: 'canceled' } },
  ]);
  const audit = await parley.call('GET', '/api/audit_events?event_action=subscription.updated', { key });
  const recorded = audit.body.data.map(({ actor_email, api_key_prefix, subject_type, subject_id, metadata }: Record<string, unknown>) => {
    assert.deepEqual([actor_email, api_key_prefix, subject_type, subject_id], [null, null, 'subscription', String(id)]);
    return metadata;
  });
  assert.deepEqual(recorded, [
    { plan: 'team', status: 'canceled', previous_status: 'past_due' },
    { plan: 'team', status: 'past_due', previous_status: 'active' },
    { plan: 'pro', status: 'active', previous_status: null },
  ]);
});

test('an invoice fires invoice.paid or invoice.payment_failed', async () => {
  const { id, slug } = await withEndpoint('payer');
  const paid = await operator('POST', `/operator/organizations/${slug}/invoices`, { amount_cents: 4_200, status: 'paid' });
  const failed = await operator('POST', `/operator/organizations/${slug}/invoices`, { amount_cents: 4_200, status: 'payment_failed' });
  assert.deepEqual([paid.status, failed.status], [201, 201]);
  const { id: _, created_at, ...invoice } = paid.body.invoice;
  assert.deepEqual([invoice, typeof created_at], [{ amount_cents: 4_200, status: 'paid' }, 'string']);
  assert.deepEqual(await webhookEvents(parley, id), [
    { type: 'invoice.paid', data: { invoice_id: paid.body.invoice.id, amount_cents: 4_200 } },
    { type: 'invoice.payment_failed', data: { invoice_id: failed.body.invoice.id, amount_cents: 4_200 } },
  ]);
  assert.equal((await operator('POST', `/operator/organizations/${slug}/invoices`, { amount_cents: -1, status: 'paid' })).status, 422);
});

test('what the operator sends again under its Idempotency-Key is made once, and answered as before', async () => {
  const send = (path: string, body: unknown, key = 'op-1') =>
    parley.call('POST', path, { key: parley.operatorKey, body, headers: { 'idempotency-key': key } });
  // At once, as when a client gives up waiting and asks again.
  const atOnce = await Promise.all(Array.from({ length: 4 }, () => send('/operator/organizations', { slug: 'twice' })));
  const made = await send('/operator/organizations', { slug: 'twice' });
  for (const { status, text } of atOnce) assert.deepEqual([status, text], [201, made.text]);
  const again = await send('/operator/organizations', { slug: 'twice' });
  assert.deepEqual([again.status, again.text, again.headers['idempotent-replayed']], [201, made.text, 'true']);
  assert.equal((await send('/operator/organizations', { slug: 'twice', name: 'Other' })).body.detail.error, 'idempotency_key_reused');
  const renamed = await send('/operator/organizations', { slug: 'thrice' });
  assert.deepEqual([renamed.status, renamed.body.detail.error], [422, 'idempotency_key_reused']);
  assert.equal((await operator('PATCH', '/operator/organizations/thrice', {})).status, 404, 'nothing was made');
  assert.equal((await send('/operator/organizations', { slug: 'twice' }, 'op-2')).status, 409);
  assert.equal((await send('/operator/organizations', { slug: 'thrice' }, 'op-2')).status, 201, 'what was refused keeps no key');
  const bill = (key: string, amount_cents = 100) => send('/operator/organizations/twice/invoices', { amount_cents, status: 'paid' }, key);
  const paid = await bill('op-3');
  assert.equal((await bill('op-3')).text, paid.text);
  assert.equal((await bill('op-3', 200)).status, 422);
  assert.notEqual((await bill('op-4')).body.invoice.id, paid.body.invoice.id);
  const rotate = (key: string) => send('/operator/signing_keys/rotate', undefined, key);
  const rotated = await rotate('op-5');
  assert.equal((await rotate('op-5')).text, rotated.text);
  assert.notEqual((await rotate('op-6')).text, rotated.text);
  // The org may use the same key, or any other, for something of its own.
  for (const [index, own] of ['op-3', 'operator op-3'].entries()) {
    const headers = { 'idempotency-key': own };
    const answer = await parley.call('POST', '/api/agents', { key: made.body.api_key, body: { slug: `own-${index}` }, headers });
    assert.equal(answer.status, 201, answer.text);
  }
});

test('the operator and the org change the same things at once: everyone is answered, and every change is on record', async () => {
  const { slug, key } = await createOrganization(parley, 'contested');
  const rounds = 8;
  for (let round = 1; round <= rounds; round += 1) {
    const subscription = { plan: 'pro', status: 'active' };
    const answers = await Promise.all([
      operator('PATCH', `/operator/organizations/${slug}`, { subscription, credits_micros: round, status: 'active' }),
      operator('PATCH', `/operator/organizations/${slug}`, { total_tokens_cap: round, status: 'active', subscription }),
      parley.call('PUT', '/api/budget', { key, body: { total_tokens_cap: 10 * round } }),
      parley.call('PATCH', '/api/organization', { key, body: { name: `Round ${round}` } }),
    ]);
    for (const answer of answers) assert.equal(answer.status, 200, answer.text);
  }
  const actions = await auditActions(parley, key);
  const count = (wanted: string) => actions.filter((action) => action === wanted).length;
  assert.deepEqual(['budget.updated', 'subscription.updated', 'organization.updated'].map(count), [3 * rounds, 2 * rounds, rounds]);
});

test('the operator changes an org while its budget is written twice', { skip: engine === 'pglite' }, async () => {
  const { slug, id } = await createOrganization(parley, 'settling');
  const { db } = parley.context.database;
  const count = (used: number, transaction: typeof db) =>
    transaction.updateTable('budgets').set({ tokens_used: used }).where('org_id', '=', id).execute();
  const isWaitedFor = async () => (await sql`select 1 from pg_locks where not granted`.execute(db)).rows.length > 0;
  const changed = await db.transaction().execute(async (transaction) => {
    await count(1, transaction);
    const changing = operator('PATCH', `/operator/organizations/${slug}`, { credits_micros: 5 });
    await until(isWaitedFor);
    // As a batch of turns does. A row that was written in the same transaction is checked for its org again.
    await count(2, transaction);
    return { changing };
  });
  const answer = await changed.changing;
  assert.deepEqual([answer.status, answer.body.organization?.credits_micros], [200, 5], answer.text);
});

test('keys report themselves to webhooks without their secret; revoked again, nothing is reported or recorded', async () => {
  const { id, key } = await withEndpoint('keyed');
  const { body } = await parley.call('POST', '/api/api_keys', { key, body: { name: 'Short-lived', scopes: [] } });
  for (const _time of ['first', 'again']) await parley.call('DELETE', `/api/api_keys/${body.api_key.id}`, { key });
  const data = { id: body.api_key.id, prefix: body.api_key.prefix, name: 'Short-lived' };
  assert.deepEqual(await webhookEvents(parley, id), [
    { type: 'api_key.created', data },
    { type: 'api_key.revoked', data },
  ]);
  assert.equal((await auditActions(parley, key)).filter((action) => action === 'api_key.revoked').length, 1);
});

test('the reserved routes are not there', async () => {
  for (const [method, path] of [
    ['GET', '/v1/account/proposals'],
    ['POST', '/v1/account/proposals'],
    ['POST', '/v1/account/proposals/1/approve'],
    ['POST', '/v1/account/proposals/1/cancel'],
  ] as const) {
    const answer = await parley.call(method, path, { key: parley.apiKey, ...(method === 'POST' ? { body: {} } : {}) });
    assert.deepEqual([answer.status, answer.text], [404, '{"detail":"Not Found"}'], path);
  }
});

test('strangers who try out operator keys, or ask whether the server is ready, share one query at a time', async (context) => {
  const { database } = parley.context;
  const queries = context.mock.method(database.db, 'getExecutor');
  const tried = await Promise.all(
    Array.from({ length: 50 }, (_, index) =>
      parley.call('GET', '/operator/organizations', { key: `svc_operator_nobody_knows_it_${index}` }),
    ),
  );
  assert.deepEqual(new Set(tried.map(({ status }) => status)), new Set([401]));
  assert.ok(queries.mock.callCount() < 25, `${queries.mock.callCount()} queries`);
  const pings = context.mock.method(database, 'ping');
  const asked = await Promise.all(Array.from({ length: 50 }, () => parley.call('GET', '/readyz')));
  assert.deepEqual(new Set(asked.map(({ status }) => status)), new Set([200]));
  assert.ok(pings.mock.callCount() < 25, `${pings.mock.callCount()} pings`);
});
