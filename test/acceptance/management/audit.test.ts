import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import { createAgent, createKey, createOrganization } from '../../support/accounts.ts';
import { startApp } from '../../support/app.ts';
import { browserOf } from '../../support/members.ts';

const parley = await startApp({ after });

interface Event {
  created_at: string;
  action: string;
  api_key_prefix: string | null;
  subject_type: string;
  subject_id: string;
  metadata: Record<string, unknown>;
}

async function exported(
  key: string,
  query = '',
): Promise<{ data: Event[]; meta: { row_estimate: number; limit: number; next_cursor: string | null } }> {
  const answer = await parley.call('GET', `/api/audit_events${query}`, { key });
  assert.equal(answer.status, 200, answer.text);
  return answer.body;
}

test('an event says what happened, who did it and from where', async () => {
  const acme = await createOrganization(parley);
  const headers = { 'user-agent': 'test/1', 'x-forwarded-for': '203.0.113.9' };
  await parley.call('POST', '/api/agents', { key: acme.key, body: { slug: 'desk' }, headers });
  const { data } = await exported(acme.key, '?event_action=agent.created');
  const [only] = data;
  assert.ok(only !== undefined && data.length === 1);
  const { created_at, subject_id, api_key_prefix, ...event } = only;
  assert.match(created_at, /\+00:00$/);
  assert.match(subject_id, /^\d+$/);
  assert.ok(acme.key.startsWith(api_key_prefix ?? 'none'));
  assert.deepEqual(event, {
    action: 'agent.created',
    actor_email: null,
    subject_type: 'agent',
    ip_address: '127.0.0.1',
    user_agent: 'test/1',
    metadata: { slug: 'desk', name: 'desk', default: false },
  });
});

test('every change is on record', async () => {
  const { id, key } = await createOrganization(parley);
  await createAgent(parley, key, 'desk');
  const call = (method: 'POST' | 'PUT' | 'PATCH' | 'DELETE', path: string, body?: unknown) => parley.call(method, path, { key, body });
  await call('POST', '/api/agents/desk/releases', { activate: true });
  const agentId = (await call('PATCH', '/api/agents/desk', { name: 'Desk' })).body.agent.id;
  const made = await call('POST', '/api/api_keys', { name: 'k', scopes: ['agents:read', 'agents:read'] });
  await call('DELETE', `/api/api_keys/${made.body.api_key.id}`);
  await call('PUT', '/api/budget', { total_tokens_cap: 5 });
  await call('PUT', '/api/model_credentials/openai', { api_key: 'sk-0123456789abcdef' });
  await call('DELETE', '/api/model_credentials/openai');
  await call('PATCH', '/api/organization', { name: 'Renamed' });
  const invited = await call('POST', '/api/invitations', { email: 'ada@example.com', role: 'admin' });
  await parley.call('POST', '/api/invitations/accept', { body: { token: invited.body.token, name: 'Ada', password: 'a long password' } });
  const [member] = (await parley.call('GET', '/api/members', { key })).body.data;
  await call('PATCH', `/api/members/${member.id}`, { role: 'member' });
  await call('DELETE', `/api/members/${member.id}`);
  await call('PUT', '/api/budget', { total_tokens_cap: null });
  for (const headers of [{}, { 'idempotency-key': 'mint' }]) {
    const minted = await parley.call('POST', '/api/agents/desk/session_tokens', { key, body: {}, headers });
    assert.equal(minted.status, 200, 'which is on record only where the operator wants it');
  }
  await call('DELETE', '/api/agents/desk');
  const { data } = await exported(key);
  const caps = (total_tokens_cap: number | null) => ({ credits_micros: null, total_tokens_cap, instance_spend_cap_micros: null });
  const { id: keyId, prefix } = made.body.api_key;
  const ada = { email: 'ada@example.com', role: 'member' };
  const recorded = data.map((event) => [event.action, event.subject_type, event.subject_id, event.metadata]).toReversed();
  const first = data.at(-1)?.metadata;
  assert.deepEqual(recorded, [
    ['api_key.created', 'api_key', recorded[0]?.[2], { ...first, name: 'First key' }],
    ['agent.created', 'agent', String(agentId), { slug: 'desk', name: 'desk', default: false }],
    ['release.created', 'release', 'desk/1', { agent: 'desk', version: 1, provider: 'offline', model: 'demo' }],
    ['release.activated', 'release', 'desk/1', { agent: 'desk', version: 1, previous_version: null }],
    ['release.created', 'release', 'desk/2', { agent: 'desk', version: 2, provider: 'offline', model: 'demo' }],
    ['release.activated', 'release', 'desk/2', { agent: 'desk', version: 2, previous_version: 1 }],
    ['agent.updated', 'agent', String(agentId), { slug: 'desk', changes: { name: 'Desk' } }],
    ['api_key.created', 'api_key', String(keyId), { name: 'k', prefix, scopes: ['agents:read'] }],
    ['api_key.revoked', 'api_key', String(keyId), { name: 'k', prefix }],
    ['budget.updated', 'budget', String(id), { before: caps(null), after: caps(5) }],
    ['model_credential.stored', 'model_credential', 'openai', { provider: 'openai', last_four: 'cdef' }],
    ['model_credential.deleted', 'model_credential', 'openai', { provider: 'openai' }],
    ['organization.updated', 'organization', String(id), { changes: { name: 'Renamed' } }],
    ['member.invited', 'invitation', String(invited.body.invitation.id), { ...ada, role: 'admin' }],
    ['member.joined', 'member', member.id, { ...ada, role: 'admin' }],
    ['member.role_changed', 'member', member.id, { ...ada, previous_role: 'admin' }],
    ['member.removed', 'member', member.id, ada],
    ['budget.updated', 'budget', String(id), { before: caps(5), after: caps(null) }],
    ['agent.deleted', 'agent', String(agentId), { slug: 'desk' }],
    ['audit_log.exported', 'organization', String(id), { format: 'json', limit: 100 }],
  ]);
});

test('a changed setting is on record under the name that the API has for it', async () => {
  const { key } = await createOrganization(parley);
  await createAgent(parley, key, 'desk');
  const changes = { support_access: { transcripts: false }, default_agent: 'desk', alert_thresholds: [90] };
  await parley.call('PATCH', '/api/organization', { key, body: changes });
  await parley.call('PATCH', '/api/agents/desk', { key, body: { default: false } });
  const { data } = await exported(key);
  const metadataOf = (action: string) => data.find((event) => event.action === action)?.metadata;
  assert.deepEqual(metadataOf('organization.updated'), { changes });
  assert.deepEqual(metadataOf('agent.updated'), { slug: 'desk', changes: { default: false } });
});

test('an export writes its own event first, with its filters, and tells no process to forget what it holds', async (t) => {
  const change = t.mock.method(parley.context.directory, 'change');
  const { key } = await createOrganization(parley);
  const query = '?event_action=audit_log.exported&from=2020-01-01&to=not-a-date&user_id=nobody&limit=7';
  assert.deepEqual((await exported(key, query)).data, []);
  const { data: all } = await exported(key, '?event_action=audit_log.exported');
  assert.deepEqual(all[1]?.metadata, {
    format: 'json',
    event_action: 'audit_log.exported',
    user_id: 'nobody',
    from: '2020-01-01',
    limit: 7,
  });
  assert.equal(change.mock.callCount(), 0);
});

test('limit is 100 unless said, 500 at most, and the cursor goes on', async () => {
  const { key } = await createOrganization(parley);
  for (let index = 0; index < 6; index += 1) await parley.call('PATCH', '/api/organization', { key, body: { name: `Name ${index}` } });
  assert.equal((await exported(key)).meta.limit, 100);
  assert.equal((await exported(key, '?limit=9999')).meta.limit, 500);
  assert.equal((await exported(key, '?limit=0')).meta.limit, 1);
  const names: unknown[] = [];
  let cursor: string | null | undefined;
  do {
    const page = await exported(key, `?event_action=organization.updated&limit=4${cursor === undefined ? '' : `&cursor=${cursor}`}`);
    assert.equal(page.meta.row_estimate, 6);
    names.push(...page.data.map((event) => JSON.stringify(event.metadata)));
    cursor = page.meta.next_cursor;
  } while (cursor !== null);
  assert.deepEqual(
    names,
    [5, 4, 3, 2, 1, 0].map((index) => `{"changes":{"name":"Name ${index}"}}`),
  );
});

test('events of all organizations together may be more than an integer counts, in an export and in the dashboard', async () => {
  await sql`alter table audit_events alter column id restart with 3000000000`.execute(parley.context.database.db);
  const acme = await createOrganization(parley);
  const headers = await browserOf(parley, acme, 'counter@example.com', 'owner');
  const first = await exported(acme.key, '?limit=1');
  const second = await exported(acme.key, `?limit=1&cursor=${first.meta.next_cursor}`);
  assert.deepEqual([first.data[0]?.action, second.data[0]?.action], ['audit_log.exported', 'member.joined']);
  const page = await parley.call('GET', '/dashboard/api/audit?limit=3', { headers });
  const rest = await parley.call('GET', `/dashboard/api/audit?limit=1&cursor=${page.body.next_cursor}`, { headers });
  assert.equal(rest.body.data[0]?.action, 'member.invited', rest.text);
  const { id } = rest.body.data[0];
  assert.ok(id >= 3_000_000_000);
  assert.deepEqual((await parley.call('GET', `/dashboard/api/audit/${id}`, { headers })).body, { event: rest.body.data[0] });
});

test('what is left empty is as if it were not there', async () => {
  const { key } = await createOrganization(parley);
  const { data, meta } = await exported(key, '?event_action=&user_id=&from=&to=&limit=&cursor=');
  assert.deepEqual([meta.limit, meta.row_estimate], [100, 2]);
  assert.deepEqual(
    data.map((event) => event.action),
    ['audit_log.exported', 'api_key.created'],
  );
  assert.deepEqual(data[0]?.metadata, { format: 'json', limit: 100 });
  const csv = await parley.call('GET', '/api/audit_events.csv?event_action=&user_id=', { key });
  assert.equal(csv.text.trimEnd().split('\r\n').length, 4);
});

test('invalid dates are ignored, valid ones are whole days in UTC', async () => {
  const { key } = await createOrganization(parley);
  const today = new Date().toISOString().slice(0, 10);
  const count = async (query: string) => (await exported(key, `?event_action=api_key.created&${query}`)).data.length;
  assert.equal(await count('from=2026-02-31&to=tomorrow'), 1);
  assert.equal(await count(`from=${today}&to=${today}`), 1);
  assert.equal(await count('to=2020-01-01'), 0);
});

test('the CSV is the whole filtered export, RFC 4180, with formulas made inert', async () => {
  const { key } = await createOrganization(parley);
  await parley.call('PATCH', '/api/organization', { key, body: { name: 'x' }, headers: { 'user-agent': '=HYPERLINK("http://evil")' } });
  await parley.call('PATCH', '/api/organization', { key, body: { name: 'a,"b"\nc' } });
  const answer = await parley.call('GET', '/api/audit_events.csv?event_action=organization.updated&limit=1', { key });
  assert.equal(answer.status, 200);
  assert.equal(answer.headers['content-type'], 'text/csv; charset=utf-8');
  assert.equal(answer.headers['content-disposition'], 'attachment; filename="audit_events.csv"');
  const [header, ...lines] = answer.text.split('\r\n');
  assert.equal(header, 'created_at,action,actor_email,api_key_prefix,subject_type,subject_id,ip_address,user_agent,metadata');
  assert.equal(lines.length, 3, 'limit is for JSON only');
  assert.ok(lines[1]?.includes(`"'=HYPERLINK(""http://evil"")"`), lines[1]);
  assert.ok(lines[0]?.endsWith('"{""changes"":{""name"":""a,\\""b\\""\\nc""}}"'), lines[0]);
  const { data } = await exported(key, '?event_action=audit_log.exported');
  assert.deepEqual(data[1]?.metadata, { format: 'csv', event_action: 'organization.updated' });
});

test('the chain can be verified over the wire', async () => {
  const { key, id } = await createOrganization(parley);
  await parley.call('PATCH', '/api/organization', { key, body: { name: 'Renamed' } });
  const good = await parley.call('GET', '/api/audit_events/verification', { key });
  assert.deepEqual([good.status, good.body.valid, good.body.checked, good.body.broken], [200, true, 2, null]);
  const { db } = parley.context.database;
  await sql`alter table audit_events disable trigger all`.execute(db);
  await db
    .updateTable('audit_events')
    .set({ metadata: '{}' })
    .where('org_id', '=', id)
    .where('action', '=', 'organization.updated')
    .execute();
  await sql`alter table audit_events enable trigger all`.execute(db);
  const bad = await parley.call('GET', '/api/audit_events/verification', { key });
  assert.deepEqual([bad.body.valid, bad.body.checked, bad.body.broken.action], [false, 1, 'organization.updated']);
});

test('a head that was kept shows that the end of the chain was cut off, also when there are new events since', async () => {
  const { key, id } = await createOrganization(parley);
  const rename = (name: string) => parley.call('PATCH', '/api/organization', { key, body: { name } });
  const verify = async (query = '') => (await parley.call('GET', `/api/audit_events/verification${query}`, { key })).body;
  await rename('First');
  const { head, has_kept_head } = await verify();
  assert.equal(has_kept_head, null);
  await rename('Second');
  const grown = await verify(`?head=${head}`);
  assert.deepEqual([grown.valid, grown.checked, grown.has_kept_head], [true, 3, true]);

  const { db } = parley.context.database;
  await sql`alter table audit_events disable trigger all`.execute(db);
  await db.deleteFrom('audit_events').where('org_id', '=', id).where('action', '=', 'organization.updated').execute();
  await sql`alter table audit_events enable trigger all`.execute(db);
  await rename('Third');
  assert.deepEqual([(await verify()).valid, (await verify()).checked], [true, 2]);
  const cut = await verify(`?head=${head}`);
  assert.deepEqual([cut.valid, cut.has_kept_head, cut.broken], [false, false, null]);
  assert.equal((await parley.call('GET', '/api/audit_events/verification?head=x', { key })).status, 422);
});

test('changes that are made at the same moment follow one another in the chain', async () => {
  const { key } = await createOrganization(parley);
  await Promise.all(Array.from({ length: 10 }, () => createKey(parley, key, [])));
  const { body } = await parley.call('GET', '/api/audit_events/verification', { key });
  assert.deepEqual([body.valid, body.checked], [true, 11]);
});

test('a key reads nothing of it without leaving an event: the page that leaves none is for members', async () => {
  const organization = await createOrganization(parley);
  const refused = await parley.call('GET', '/dashboard/api/audit', { key: organization.key });
  assert.deepEqual([refused.status, refused.text.includes('api_key.created')], [403, false]);
  const admin = await browserOf(parley, organization, 'auditor@example.com', 'admin');
  const page = await parley.call('GET', '/dashboard/api/audit', { headers: admin });
  assert.deepEqual([page.status, page.body.data.at(-1).action], [200, 'api_key.created']);
});

test('an export of the audit log needs the scope, and shows one org only', async () => {
  const acme = await createOrganization(parley);
  const other = await createOrganization(parley);
  const without = await createKey(parley, acme.key, ['agents:read']);
  for (const path of ['/api/audit_events', '/api/audit_events.csv']) {
    assert.equal((await parley.call('GET', path)).status, 401);
    assert.equal((await parley.call('GET', path, { key: without })).status, 403);
    const foreign = await parley.call('GET', path, { key: other.key });
    assert.equal(foreign.text.includes(acme.key.slice(0, 15)), false);
  }
});
