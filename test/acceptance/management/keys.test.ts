import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createKey, createOrganization } from '../../support/accounts.ts';
import { type Answer, startApp } from '../../support/app.ts';

const parley = await startApp({ after });
const acme = await createOrganization(parley, 'acme');

test('a key is shown once, found by its prefix, and refused as soon as it is revoked', async () => {
  const created = await parley.call('POST', '/api/api_keys', { key: acme.key, body: { name: 'Backend', scopes: ['agents:read'] } });
  assert.equal(created.status, 201);
  const { api_key: record, secret } = created.body;
  assert.match(secret, /^svc_live_[A-Za-z0-9_-]{16,}$/);
  assert.equal(record.prefix, secret.slice(0, 'svc_live_'.length + 6));
  assert.deepEqual(record.scopes, ['agents:read']);
  assert.match(record.created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00$/);
  const list = await parley.call('GET', '/api/api_keys', { key: acme.key });
  assert.deepEqual(
    list.body.data.find((key: { id: number }) => key.id === record.id),
    { ...record, last_used_at: null, revoked_at: null },
  );
  assert.equal(list.text.includes(secret), false);

  assert.equal((await parley.call('GET', '/api/agents', { key: secret })).status, 200);
  assert.equal((await parley.call('DELETE', `/api/api_keys/${record.id}`, { key: acme.key })).status, 204);
  const refused = await parley.call('GET', '/api/agents', { key: secret });
  assert.deepEqual([refused.status, refused.text], [401, '{"detail":"Unauthorized"}']);
  assert.equal((await parley.call('DELETE', `/api/api_keys/${record.id}`, { key: acme.key })).status, 204, 'again is no error');
  await parley.context.directory.close();
  const later = (await parley.call('GET', '/api/api_keys', { key: acme.key })).body.data;
  const { last_used_at, revoked_at } = later.find((key: { id: number }) => key.id === record.id);
  for (const time of [last_used_at, revoked_at]) assert.ok(Date.parse(time) >= Date.parse(record.created_at), time);
});

test('a key cannot grant a scope that it lacks, and an unknown scope is 422', async () => {
  const limited = await createKey(parley, acme.key, ['api_keys:write', 'agents:read']);
  const granted = await parley.call('POST', '/api/api_keys', { key: limited, body: { name: 'x', scopes: ['agents:read'] } });
  assert.equal(granted.status, 201);
  const refused = await parley.call('POST', '/api/api_keys', {
    key: limited,
    body: { name: 'x', scopes: ['agents:read', 'agents:write'] },
  });
  assert.deepEqual([refused.status, refused.body], [403, { detail: 'A key cannot grant a scope that it lacks: agents:write' }]);
  const unknown = await parley.call('POST', '/api/api_keys', { key: limited, body: { name: 'x', scopes: ['everything'] } });
  assert.deepEqual([unknown.status, unknown.body], [422, { detail: 'scopes: "everything" is not a scope' }]);
});

test('a role is scopes too: a key with only members:write can make somebody a member, and nobody an admin or owner', async () => {
  const limited = await createKey(parley, acme.key, ['members:write']);
  for (const [role, status] of [
    ['owner', 403],
    ['admin', 403],
    ['member', 201],
  ] as const) {
    const answer = await parley.call('POST', '/api/invitations', { key: limited, body: { email: 'eve@example.com', role } });
    assert.equal(answer.status, status, role);
  }
});

test('credentials that are none are all the same 401', async () => {
  const values = [
    '',
    'Bearer',
    'Bearer ',
    'Basic abc',
    `Bearer ${acme.key}x`,
    'Bearer svc_live_short',
    "Bearer svc_live_' or 1=1 --",
    'Bearer svc_operator_aaaaaaaaaaaaaaaaaaaa',
  ];
  for (const authorization of values) {
    const answer = await parley.call('GET', '/api/agents', { headers: { authorization } });
    assert.deepEqual([answer.status, answer.text], [401, '{"detail":"Unauthorized"}'], authorization);
  }
});

test('the same Idempotency-Key and body give the first answer again; another body is refused', async () => {
  const call = (name: string) =>
    parley.call('POST', '/api/api_keys', { key: acme.key, body: { name, scopes: [] }, headers: { 'idempotency-key': 'make-a-key' } });
  const [first, second] = await Promise.all([call('one'), call('one')]);
  assert.deepEqual([first.status, second.status], [201, 201]);
  assert.deepEqual(first.body, second.body);
  assert.deepEqual([first, second].map((answer) => answer.headers['idempotent-replayed']).sort(), ['true', undefined]);
  const other = await call('two');
  assert.equal(other.status, 422);
  assert.equal(other.body.detail.error, 'idempotency_key_reused');
  const elsewhere = await parley.call('POST', '/api/agents', {
    key: acme.key,
    body: { slug: 'same-key-elsewhere' },
    headers: { 'idempotency-key': 'make-a-key' },
  });
  assert.equal(elsewhere.status, 422);
  const rows = await parley.context.database.db.selectFrom('idempotency_keys').select('response').execute();
  for (const { response } of rows) assert.equal(response?.includes(first.body.secret), false, 'what is kept is encrypted');
});

test('a repetition by another key of the org gets the same answer, but no secret with a scope that it lacks itself', async () => {
  const send = (key: string, scopes: string[], name: string) =>
    parley.call('POST', '/api/api_keys', { key, body: { name, scopes }, headers: { 'idempotency-key': name } });
  const maker = await createKey(parley, acme.key, ['api_keys:write']);
  const plain = await send(acme.key, [], 'for all');
  const again = await send(maker, [], 'for all');
  assert.deepEqual([again.status, again.headers['idempotent-replayed'], again.text], [201, 'true', plain.text]);
  assert.equal((await send(acme.key, ['budgets:write'], 'for some')).status, 201);
  assert.equal((await send(maker, ['budgets:write'], 'for some')).status, 403);
});

test('a refused request keeps no idempotency key', async () => {
  const headers = { 'idempotency-key': 'try-again' };
  const refused = await parley.call('POST', '/api/api_keys', { key: acme.key, body: { name: 'x', scopes: ['no'] }, headers });
  assert.equal(refused.status, 422);
  const good = await parley.call('POST', '/api/api_keys', { key: acme.key, body: { name: 'x', scopes: [] }, headers });
  assert.deepEqual([good.status, good.headers['idempotent-replayed']], [201, undefined]);
});

test('lists go on from their cursor to the end, without a gap', async () => {
  for (let index = 0; index < 5; index += 1) await createKey(parley, acme.key, []);
  const all = await parley.call('GET', '/api/api_keys?limit=200', { key: acme.key });
  const seen: number[] = [];
  let cursor: string | null = '';
  while (cursor !== null) {
    const page: Answer = await parley.call('GET', `/api/api_keys?limit=2${cursor === '' ? '' : `&cursor=${cursor}`}`, { key: acme.key });
    assert.ok(page.body.data.length <= 2);
    seen.push(...page.body.data.map((key: { id: number }) => key.id));
    cursor = page.body.next_cursor;
  }
  assert.deepEqual(
    seen,
    all.body.data.map((key: { id: number }) => key.id),
  );
  for (const bad of ['x', 'WyJhIl0', 'W10', 'WzFlOTld', '%00']) {
    assert.equal((await parley.call('GET', `/api/api_keys?cursor=${bad}`, { key: acme.key })).status, 422, bad);
  }
});
