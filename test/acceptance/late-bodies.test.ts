// Requests that wait, for their bodies or for a place: what was allowed when their headers came may not be when their turn comes.
// One engine: this is about who is let in, and what is allowed or refused.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { allScopes } from '../../src/accounts/scopes.ts';
import { createAgent, createKey, createOrganization, operate, type TestOrganization } from '../support/accounts.ts';
import { startApp } from '../support/app.ts';
import { browserOf } from '../support/members.ts';
import { sendBytes, sendLate } from '../support/raw-requests.ts';
import { until } from '../support/until.ts';

const parley = await startApp({ after }, { settings: { PARLEY_GATEWAY: '1' } });
const url = await parley.listen();

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
/** A change is known everywhere by then. */
const untilKnown = () => sleep(1_050);
const memberIds = async ({ key }: TestOrganization): Promise<string[]> =>
  (await parley.call('GET', '/api/members', { key })).body.data.map(({ id }: { id: string }) => id);

test('a revoked key, a removed member and one with fewer rights make nothing with a body that comes late', async () => {
  const org = await createOrganization(parley, 'late');
  const revoked = await createKey(parley, org.key, [...allScopes]);
  const [{ id: keyId }] = (await parley.call('GET', '/api/api_keys', { key: org.key })).body.data;
  const removed = await browserOf(parley, org, 'removed@example.com', 'admin');
  const [removedId] = await memberIds(org);
  const lowered = await browserOf(parley, org, 'lowered@example.com', 'admin');
  const loweredId = (await memberIds(org)).find((id) => id !== removedId);
  const body = { name: 'Back door', scopes: ['agents:read'] };
  const requests = [];
  for (const headers of [bearer(revoked), removed, lowered, bearer(org.key)])
    requests.push(await sendLate(url, 'POST', '/api/api_keys', { headers, body }));
  assert.equal((await parley.call('DELETE', `/api/api_keys/${keyId}`, { key: org.key })).status, 204);
  assert.equal((await parley.call('DELETE', `/api/members/${removedId}`, { key: org.key })).status, 204);
  assert.equal((await parley.call('PATCH', `/api/members/${loweredId}`, { key: org.key, body: { role: 'member' } })).status, 200);
  await untilKnown();
  const answers = [];
  for (const { finish } of requests) {
    const { status, body: text } = await finish();
    answers.push([status, status === 201 ? 'made' : text]);
  }
  assert.deepEqual(answers, [
    [401, '{"detail":"Unauthorized"}'],
    [401, '{"detail":"Unauthorized"}'],
    [403, '{"detail":"Missing scope: api_keys:write"}'],
    [201, 'made'],
  ]);
});

test('a suspended organization makes nothing with a body that comes late, nor does anyone with an agent that is deleted', async () => {
  const org = await createOrganization(parley, 'paused');
  await createAgent(parley, org.key, 'desk');
  const headers = bearer(org.key);
  const release = await sendLate(url, 'POST', '/api/agents/desk/releases', { headers, body: {} });
  const agent = await sendLate(url, 'POST', '/api/agents', { headers, body: { slug: 'second' } });
  assert.equal((await parley.call('DELETE', '/api/agents/desk', { key: org.key })).status, 204);
  await untilKnown();
  assert.deepEqual(await release.finish(), { status: 404, body: '{"detail":"Not Found"}' });
  await operate(parley, 'paused', { status: 'suspended' });
  assert.deepEqual(await agent.finish(), { status: 403, body: '{"detail":"Organization suspended"}' });
});

test('while a body comes, support access is turned off: what a member sends then tells them nothing', async () => {
  const org = await createOrganization(parley, 'hushed');
  await createAgent(parley, org.key, 'desk');
  const headers = await browserOf(parley, org, 'listener@example.com', 'owner');
  const opened = await parley.call('POST', '/hushed/desk/v1/sessions', { key: org.key, body: { metadata: { end_user_id: 'ada' } } });
  const { id } = opened.body;
  const text = 'Repeat all of it';
  const sender = { sender_id: 'eve', sender_type: 'human', event_type: 'message', message: text };
  const ways: [string, unknown, Record<string, string>?][] = [
    [`/v1/sessions/${id}/messages`, { text }],
    [`/hushed/desk/v1/sessions/${id}/messages`, { text }],
    [`/hushed/desk/v1/managed-agents/sessions/${id}/events`, { type: 'user.message', text }],
    [`/hushed/desk/v1/managed-agents/sessions/${id}/files`, { name: 'orders.txt', content_base64: '' }],
    ['/hushed/desk/v1/managed-agents/sessions', { metadata: { end_user_id: 'ada' } }],
    ['/hushed/desk/v1/managed-agents/mcp', { method: 'resources/list' }, { 'x-svc-session': id }],
    ['/hushed/desk/v1/chat/completions', { messages: [{ role: 'user', content: text }] }, { 'x-svc-session': id }],
    ['/hushed/desk/v1/responses', { input: text, conversation: id }],
    ['/v1/gateway/events', { ...sender, session_id: id }],
  ];
  const requests = [];
  for (const [path, body, more] of ways) requests.push(await sendLate(url, 'POST', path, { headers: { ...headers, ...more }, body }));
  await parley.call('PATCH', '/api/organization', { key: org.key, body: { support_access: { transcripts: false } } });
  await untilKnown();
  for (const [index, { finish }] of requests.entries()) {
    const { status, body } = await finish();
    assert.deepEqual([status, body.includes('Transcript access is disabled for this organization')], [403, true], ways[index]?.[0]);
  }
});

test('a request whose body comes late counts once against the rate limit', async (context) => {
  const org = await createOrganization(parley, 'counted');
  const { mock } = context.mock.method(parley.context.rateLimit, 'take');
  const { finish } = await sendLate(url, 'POST', '/api/agents', { headers: bearer(org.key), body: { slug: 'desk' } });
  await untilKnown();
  assert.equal((await finish()).status, 201);
  assert.equal(mock.callCount(), 1);
});

test('a key that is revoked while requests wait for a place makes nothing with them, nor does whoever may do less by then', async (context) => {
  const org = await createOrganization(parley, 'crowded');
  const leaked = await createKey(parley, org.key, [...allScopes]);
  const [{ id: keyId }] = (await parley.call('GET', '/api/api_keys', { key: org.key })).body.data;
  const lowered = await browserOf(parley, org, 'crowded@example.com', 'admin');
  const [loweredId] = await memberIds(org);
  const { waitingRoom, rateLimit } = parley.context;
  const room = Promise.withResolvers<void>();
  const enter = waitingRoom.enter.bind(waitingRoom);
  const entered = context.mock.method(waitingRoom, 'enter', async (orgId: number, isGone: () => boolean) => {
    await room.promise;
    return enter(orgId, isGone);
  });
  const { mock: counted } = context.mock.method(rateLimit, 'take');
  const working = waitingRoom.working;
  const callers = [{ key: leaked }, { headers: lowered }, { key: org.key }];
  const requests = callers.map((caller, index) => parley.call('POST', '/api/agents', { ...caller, body: { slug: `agent-${index}` } }));
  await until(async () => entered.mock.callCount() === callers.length);
  entered.mock.restore();
  assert.equal((await parley.call('DELETE', `/api/api_keys/${keyId}`, { key: org.key })).status, 204);
  assert.equal((await parley.call('PATCH', `/api/members/${loweredId}`, { key: org.key, body: { role: 'member' } })).status, 200);
  await untilKnown();
  room.resolve();
  const answers = await Promise.all(requests);
  assert.deepEqual(
    answers.map(({ status }) => status),
    [401, 403, 201],
  );
  assert.deepEqual([counted.callCount(), waitingRoom.working], [callers.length + 2, working], 'each counts, and holds a place, once');
});

test('a key that is revoked while a name in the body is looked up makes nothing with it', async (context) => {
  const org = await createOrganization(parley, 'resolving');
  await createAgent(parley, org.key, 'desk');
  const leaked = await createKey(parley, org.key, [...allScopes]);
  const [{ id: keyId }] = (await parley.call('GET', '/api/api_keys', { key: org.key })).body.data;
  const found = Promise.withResolvers<void>();
  const pinNow = context.mock.method(parley.context.materializer, 'pinNow', async () => {
    await found.promise;
    return { state: 'materialized' as const, pinnedTools: [] };
  });
  const lookedUp = context.mock.method(parley.context.destinations.webhooks, 'check', () => found.promise);
  const ways: [path: string, body: object][] = [
    ['/api/agents/desk/releases', { instructions: 'Repeat all of it.', activate: true }],
    ['/api/webhook_endpoints', { name: 'Tap', url: 'https://hooks.example' }],
  ];
  const requests = [leaked, org.key].flatMap((key) => ways.map(([path, body]) => parley.call('POST', path, { key, body })));
  await until(async () => pinNow.mock.callCount() === 2 && lookedUp.mock.callCount() === 2);
  assert.equal((await parley.call('DELETE', `/api/api_keys/${keyId}`, { key: org.key })).status, 204);
  await untilKnown();
  found.resolve();
  const statuses = (await Promise.all(requests)).map(({ status }) => status);
  assert.deepEqual(statuses, [401, 401, 201, 201]);
});

test('a request whose body is not read holds its place until it is answered, whatever it says of a body', async (context) => {
  const { database, waitingRoom } = parley.context;
  const { selectFrom } = database.db;
  let working: number[] = [];
  context.mock.method(database.db, 'selectFrom', (...tables: never[]) => {
    working.push(waitingRoom.working);
    return Reflect.apply(selectFrom, database.db, tables);
  });
  const head = `GET /api/audit_events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${parley.apiKey}\r\n`;
  for (const announced of ['', 'content-length: 3\r\n', 'transfer-encoding: chunked\r\n']) {
    working = [];
    const answer = await sendBytes(Number(new URL(url).port), `${head}${announced}\r\n`);
    assert.deepEqual([answer.status, working.slice(-2)], [200, [1, 1]], announced);
  }
});

test('a body that comes with its headers, or soon after them, costs no second look at who sends it', async (context) => {
  const entered = context.mock.method(parley.context.waitingRoom, 'enter').mock;
  const looked = context.mock.method(parley.context.directory, 'agentBySlug').mock;
  const path = '/demo/assistant/v1/managed-agents/sessions';
  const sent = await fetch(url + path, {
    method: 'POST',
    headers: { ...bearer(parley.apiKey), 'content-type': 'application/json' },
    body: '{}',
  });
  assert.deepEqual([sent.status, entered.callCount(), looked.callCount()], [201, 1, 1]);
  const { finish } = await sendLate(url, 'POST', path, { headers: bearer(parley.apiKey), body: {} });
  assert.equal((await finish()).status, 201);
  assert.deepEqual([entered.callCount(), looked.callCount()], [3, 2]);
});
