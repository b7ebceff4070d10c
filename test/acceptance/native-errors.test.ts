// One engine: this is about who is let in, and what is allowed or refused.
import assert from 'node:assert/strict';
import { request as rawRequest } from 'node:http';
import { connect as openSocket } from 'node:net';
import { after, test } from 'node:test';
import { startApp } from '../support/app.ts';
import { createTenant } from '../support/tenants.ts';
import { connect } from '../support/wire.ts';

const app = await startApp({ after });
const url = await app.listen();
const unauthorized = [401, '{"detail":"Unauthorized"}'];
const notFound = [404, '{"detail":"Not Found"}'];

test('no credential, a wrong one and one of another kind are 401 on every native route', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  const minted = await tenant.post('/api/agents/helper/session_tokens', { end_user_id: 'ann' });
  assert.equal(minted.status, 200, minted.text);
  const credentials = [
    '',
    'nonsense',
    'svc_live_',
    `svc_live_${'x'.repeat(32)}`,
    `${tenant.key}x`,
    minted.body.token,
    "svc_live_' or 1=1 --",
  ];
  for (const credential of credentials) {
    const stranger = connect(url, credential);
    for (const base of ['', tenant.agentPath]) {
      const answers = [
        await stranger.post(`${base}/v1/sessions`, {}),
        await stranger.get(`${base}/v1/sessions/${id}`),
        await stranger.post(`${base}/v1/sessions/${id}/messages`, { text: 'hi' }),
        await stranger.put(`${base}/v1/sessions/${id}/inputs/req_1`, { decision: 'deny' }),
      ];
      for (const answer of answers) {
        assert.deepEqual([answer.status, answer.text], unauthorized);
        assert.equal(answer.headers.get('www-authenticate'), 'Bearer');
      }
    }
    for (const answer of [
      await stranger.get(`${tenant.agentPath}/v1/sessions`),
      await stranger.get(`${tenant.agentPath}/v1/sessions/${id}/messages`),
      await stranger.delete(`${tenant.agentPath}/v1/sessions/${id}`),
    ])
      assert.deepEqual([answer.status, answer.text], unauthorized);
  }
  for (const authorization of [tenant.key, `Basic ${tenant.key}`, `Bearer ${tenant.key} extra`, 'Bearer']) {
    const answer = await connect(url, '').get(`/v1/sessions/${id}`, { authorization });
    assert.deepEqual([answer.status, answer.text], unauthorized, authorization);
  }
  assert.equal((await tenant.get(`/v1/sessions/${id}`)).body.status, 'active');
});

test('a revoked key is 401 at once', async () => {
  const tenant = await createTenant(url);
  const made = await tenant.post('/api/api_keys', { name: 'Short-lived', scopes: [] });
  const key = connect(url, made.body.secret);
  assert.equal((await key.post('/v1/sessions', {})).status, 200);
  await tenant.delete(`/api/api_keys/${made.body.api_key.id}`);
  assert.equal((await key.post('/v1/sessions', {})).status, 401);
});

test('every 404 is byte for byte the same, whatever was not there', async () => {
  const tenant = await createTenant(url);
  const { slug } = tenant;
  const id = await tenant.session();
  for (const path of [
    '/v1/sessions/ses_nowhere',
    `/v1/sessions/${'x'.repeat(129)}`,
    `/v1/sessions/${'x'.repeat(600)}`,
    '/v1/sessions/%00',
    `/v1/sessions/${id}%00`,
    '/v1/sessions/%F0%9F%99%82',
    '/v1/sessions/..%2f..%2fetc',
    `/${slug}/nobody/v1/sessions`,
    `/${slug}/nobody/v1/sessions/${id}`,
    `/nowhere/helper/v1/sessions/${id}`,
    `/demo/assistant/v1/sessions`,
    `/${slug}/helper/v1/sessions/ses_nowhere/messages`,
    '/v1/nothing',
    '/nothing/at/all',
    `/v1/sessions/${id}/messages`,
  ]) {
    const answer = await tenant.get(path);
    assert.deepEqual([answer.status, answer.text], notFound, path);
    assert.equal(answer.headers.get('content-type'), 'application/json; charset=utf-8');
    assert.match(answer.headers.get('x-request-id') ?? '', /^\S+$/);
  }
});

test('the order of checks: 401, 404, 403, body, budget, release', async () => {
  const tenant = await createTenant(url);
  const id = await tenant.session();
  await tenant.operate({ total_tokens_cap: 0 });
  const bad = { text: 7 };
  const path = `/v1/sessions/${id}/messages`;
  assert.equal((await connect(url, 'svc_live_wrong_wrong_wrong_wrong').post('/v1/sessions/ses_nowhere/messages', bad)).status, 401);
  assert.equal((await tenant.post('/v1/sessions/ses_nowhere/messages', bad)).status, 404, 'the session before the body');
  assert.equal((await tenant.post('/v1/sessions/ses_nowhere/messages', '{', {})).status, 404, 'also a body that is no JSON');
  assert.equal((await app.request('DELETE', '/demo/assistant/v1/sessions/ses_nowhere', '{')).status, 404, 'and one of a DELETE');
  assert.equal((await tenant.post(path, bad)).status, 422, 'the body before the budget');
  assert.equal((await tenant.post(path, { text: 'hi', agent: 'nobody' })).status, 422);
  assert.equal((await tenant.post(path, { text: 'hi' })).status, 402);
  await tenant.operate({ status: 'suspended' });
  assert.equal((await tenant.post(path, bad)).status, 403, 'the org before the body');
  assert.equal((await tenant.get('/v1/sessions/ses_nowhere')).status, 403);
});

test('a path or a method that there is none of is 404, whatever is sent along', async () => {
  const tenant = await createTenant(url);
  for (const send of [
    tenant.post('/v1/nothing', '{"broken'),
    tenant.post('/v1/nothing', 'x'.repeat(2 * 1024 * 1024)),
    tenant.post('/v1/nothing', 'a=b', { 'content-type': 'text/plain' }),
    tenant.patch('/v1/sessions', '{"broken'),
    tenant.post(`${tenant.agentPath}/v1/managed-agents/nothing`, '{"broken'),
  ]) {
    const answer = await send;
    assert.deepEqual([answer.status, answer.text], notFound);
  }
  const adapter = await tenant.post(`${tenant.agentPath}/v1/responses/resp_1/nothing`, '{"broken');
  assert.deepEqual([adapter.status, adapter.body.error.code], [404, 'not_found']);
});

test('paths that no client library would send are answered, not crashed on', async () => {
  const tenant = await createTenant(url);
  const statuses = await Promise.all(
    [
      '/v1/sessions/%',
      '/v1/sessions/%ff',
      '/v1/sessions/%C0%80',
      '//v1//sessions',
      '/v1/sessions/a%2Fb/messages',
      '/%2e%2e/v1',
      `/v1/sessions/${'%41'.repeat(3000)}`,
    ].map((path) => rawStatus(path, tenant.key)),
  );
  for (const status of statuses) assert.equal(status, 404);
});

test('a path that cannot be decoded, or has too long a name in it, is 404 in the shape of its surface', async () => {
  const tenant = await createTenant(url);
  const adapterError = { message: 'Not Found', type: 'not_found_error', code: 'not_found', param: null };
  for (const name of ['%', '%ff', 'x'.repeat(513), '%41'.repeat(513)]) {
    const native = await tenant.get(`/v1/sessions/${name}`);
    assert.deepEqual([native.status, native.text], notFound, name);
    const unknown = await tenant.get(`/${name}?a=%`);
    assert.deepEqual([unknown.status, unknown.text], notFound, name);
    for (const path of [`/v1/responses/${name}`, `/v1/responses/${name}/nothing`, `/v1/chat/completions/${name}`]) {
      const adapter = await tenant.get(tenant.agentPath + path);
      assert.deepEqual([adapter.status, adapter.body], [404, { detail: 'Not Found', error: adapterError }], path);
      assert.match(adapter.headers.get('x-request-id') ?? '', /^rid_/);
    }
    const mint = await tenant.post(`/api/agents/${name}/session_tokens`, {});
    assert.deepEqual([mint.status, mint.body], [404, { error: 'not_found', message: 'Not Found' }], name);
  }
});

test('headers that are too large, and what is no HTTP, are refused in the same shape', async () => {
  const large = await fetch(`${url}/v1/sessions/x`, { headers: { authorization: `Bearer ${'a'.repeat(20_000)}` } });
  assert.equal(large.status, 431);
  assert.match(large.headers.get('x-request-id') ?? '', /^rid_/);
  assert.deepEqual(await large.json(), { detail: 'The headers are larger than 16 KiB.' });
  const socket = openSocket(Number(new URL(url).port), '127.0.0.1').setEncoding('utf8');
  socket.write('GET / HTTP/1.1\r\nbad header\r\n\r\n');
  let answer = '';
  for await (const text of socket) answer += text;
  assert.match(answer, /^HTTP\/1\.1 400 Bad Request\r\n/);
  assert.ok(answer.endsWith('{"detail":"The request is malformed."}'), answer);
});

test('an identity that no model could mean is refused before anything is written', async () => {
  const tenant = await createTenant(url);
  for (const metadata of [{ end_user_id: { id: 1 } }, { user_id: ['a'] }, { agent_instance_id: 5 }, { end_user_id: 'x'.repeat(257) }])
    assert.equal((await tenant.post('/v1/sessions', { metadata })).status, 422, JSON.stringify(metadata));
  assert.equal((await tenant.get(`${tenant.agentPath}/v1/sessions`)).body.total, 0);
});

test('more requests than the rate limit allows are 429 with Retry-After, and other orgs are not touched', async (context) => {
  const small = await startApp(context, { settings: { PARLEY_RATE_LIMIT_RPS: '1', PARLEY_RATE_LIMIT_BURST: '20' } });
  const origin = await small.listen();
  const [one, two] = [await createTenant(origin), await createTenant(origin)];
  const answers = await Promise.all(Array.from({ length: 30 }, () => one.get('/v1/sessions/ses_nowhere')));
  const limited = answers.filter((answer) => answer.status === 429);
  assert.ok(limited.length >= 5, String(limited.length));
  for (const answer of limited) {
    assert.equal(typeof answer.body.detail, 'string');
    assert.match(answer.headers.get('retry-after') ?? '', /^[1-9]\d*$/);
    assert.equal(answer.headers.get('x-should-retry'), 'true');
  }
  const chats = await Promise.all(Array.from({ length: 10 }, () => one.post(`${one.agentPath}/v1/chat/completions`, {})));
  const { type, code } = chats.find((answer) => answer.status === 429)?.body.error ?? {};
  assert.deepEqual([type, code], ['rate_limit_error', 'rate_limited']);
  assert.equal((await two.get('/v1/sessions/ses_nowhere')).status, 404);
});

/** fetch would mend the path. */
function rawStatus(path: string, key: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = rawRequest(url, { path, headers: { authorization: `Bearer ${key}` } }, (response) => {
      response.resume();
      response.on('end', () => resolve(response.statusCode ?? 0));
    });
    sent.on('error', reject);
    sent.end();
  });
}
