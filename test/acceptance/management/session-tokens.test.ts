// One engine: this is about who is let in, and what is allowed or refused.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createRemoteJWKSet, decodeJwt, jwtVerify } from 'jose';
import { createAgent, createKey, createOrganization, operate } from '../../support/accounts.ts';
import { startApp } from '../../support/app.ts';

const parley = await startApp({ after }, { settings: { PARLEY_AUDIT_TOKENS: '1' } });
const acme = await createOrganization(parley, 'acme');
await createAgent(parley, acme.key, 'desk');
const mint = (body: unknown, key: string | undefined = acme.key, slug = 'desk') =>
  parley.call('POST', `/api/agents/${slug}/session_tokens`, { key, body });

test('a token lives 900 s unless told, and from 60 to 7,200 s', async () => {
  const lifetime = async (body: unknown) => {
    const answer = await mint(body);
    assert.equal(answer.status, 200, answer.text);
    const { exp = 0, iat = 0 } = decodeJwt(answer.body.token);
    assert.equal(Date.parse(answer.body.expires_at), exp * 1_000);
    assert.match(answer.body.expires_at, /\+00:00$/);
    return exp - iat;
  };
  assert.equal(await lifetime({}), 900);
  assert.equal(await lifetime({ ttl_seconds: 60 }), 60);
  assert.equal(await lifetime({ ttl_seconds: 7_200 }), 7_200);
  for (const ttl_seconds of [59, 7_201, 0, -1, 1.5, '900']) {
    const refused = await mint({ ttl_seconds });
    assert.equal(refused.status, 422);
    assert.deepEqual(Object.keys(refused.body).sort(), ['error', 'message']);
    assert.match(refused.body.message, /^ttl_seconds: /);
  }
});

test('anyone can verify it with the published keys', async () => {
  const url = await parley.listen();
  const { body } = await mint({ end_user_id: 'user_42', agent_instance_id: 'desk-1', metadata: { plan: 'pro' } });
  const { payload, protectedHeader } = await jwtVerify(body.token, createRemoteJWKSet(new URL(`${url}/.well-known/jwks.json`)));
  assert.equal(protectedHeader.alg, 'EdDSA');
  assert.notEqual(decodeJwt((await mint({ end_user_id: 'user_42' })).body.token).jti, payload.jti, 'each has an id of its own');
  assert.deepEqual(
    [payload.sub, payload.org_id, payload.agent_slug, payload.agent_instance_id, payload.metadata],
    ['user_42', acme.id, 'desk', 'desk-1', { plan: 'pro' }],
  );
});

test('errors are flat', async () => {
  const unauthorized = await parley.call('POST', '/api/agents/desk/session_tokens', { body: {} });
  assert.deepEqual([unauthorized.status, unauthorized.body], [401, { error: 'unauthorized', message: 'Unauthorized' }]);
  const forbidden = await mint({}, await createKey(parley, acme.key, ['agents:read']));
  assert.deepEqual([forbidden.status, forbidden.body], [403, { error: 'forbidden', message: 'Missing scope: session_tokens:mint' }]);
  const missing = await mint({}, acme.key, 'nobody');
  assert.deepEqual([missing.status, missing.body], [404, { error: 'not_found', message: 'Not Found' }]);
  const invalid = await mint({ end_user: 'x' });
  assert.deepEqual([invalid.status, invalid.body], [422, { error: 'invalid', message: 'end_user: is not a known field' }]);
  const many = Object.fromEntries(Array.from({ length: 51 }, (_, index) => [`k${index}`, 1]));
  for (const metadata of [many, { end_user_id: 7 }, { end_user_id: 'eve' }, { user_id: 'eve' }]) {
    const refused = await mint({ end_user_id: 'ann', metadata });
    assert.deepEqual([refused.status, refused.body.error], [422, 'invalid'], 'no session could be opened with it');
  }
  assert.equal((await mint({ metadata: { text: 'x'.repeat(2_048 - '{"text":""}'.length) } })).status, 200);
  const large = await mint({ metadata: { text: 'x'.repeat(2_049 - '{"text":""}'.length) } });
  assert.deepEqual([large.status, large.body.error], [422, 'invalid']);
});

test('a token is nobody on the flat, the native and the management routes', async () => {
  const { body } = await mint({ end_user_id: 'user_42' });
  for (const [method, path] of [
    ['POST', '/v1/sessions'],
    ['GET', '/v1/sessions/ses_x'],
    ['POST', '/acme/desk/v1/sessions'],
    ['GET', '/acme/desk/v1/sessions'],
    ['GET', '/api/agents'],
    ['POST', '/api/agents/desk/session_tokens'],
    ['GET', '/api/audit_events'],
    ['GET', '/operator/organizations'],
  ] as const) {
    assert.equal((await parley.call(method, path, { key: body.token, ...(method === 'POST' ? { body: {} } : {}) })).status, 401, path);
  }
});

test('a session fetched with a token of another agent is not there; with one of its own the token is nobody', async () => {
  await parley.call('POST', '/api/agents', { key: acme.key, body: { slug: 'shop' } });
  const session = await parley.call('POST', '/acme/desk/v1/sessions', { key: acme.key, body: {} });
  const fetched = async (agent: string, key = acme.key) => {
    const { body } = await mint({ end_user_id: 'user_42' }, key, agent);
    const { status, text } = await parley.call('GET', `/acme/desk/v1/sessions/${session.body.id}`, { key: body.token });
    return [status, text];
  };
  assert.deepEqual(await fetched('shop'), [404, '{"detail":"Not Found"}']);
  const { key } = await createOrganization(parley);
  await parley.call('POST', '/api/agents', { key, body: { slug: 'desk' } });
  assert.deepEqual(
    await fetched('desk', key),
    [404, '{"detail":"Not Found"}'],
    'nor with one of another org, whatever its agent is called',
  );
  assert.deepEqual(await fetched('desk'), [401, '{"detail":"Unauthorized"}']);
});

test('after a rotation of the signing keys both are published, and the older token holds', async () => {
  const { body } = await mint({ end_user_id: 'user_42' });
  const before = (await parley.call('GET', '/.well-known/jwks.json')).body.keys;
  const rotated = await parley.call('POST', '/operator/signing_keys/rotate', { key: parley.operatorKey });
  assert.equal(rotated.status, 200);
  const keys = (await parley.call('GET', '/.well-known/jwks.json')).body.keys;
  assert.deepEqual([keys.length, keys[0].kid, keys[1].kid], [before.length + 1, rotated.body.kid, before[0].kid]);
  assert.ok(await parley.context.tokens.verify(body.token));
});

test('minting is on record where the operator wants it, without the token', async () => {
  const { body } = await mint({ end_user_id: 'audited' });
  const { text, body: page } = await parley.call('GET', '/api/audit_events?event_action=session_token.minted', { key: acme.key });
  assert.equal(page.data[0].metadata.end_user_id, 'audited');
  assert.equal(text.includes(body.token), false);
});

test('minting tells no process to forget what it holds of the organization, recorded or under a key', async (t) => {
  const change = t.mock.method(parley.context.directory, 'change');
  for (const headers of [{}, { 'idempotency-key': 'k1' }]) {
    const answer = await parley.call('POST', '/api/agents/desk/session_tokens', { key: acme.key, body: {}, headers });
    assert.equal(answer.status, 200, answer.text);
  }
  assert.equal(change.mock.callCount(), 0);
});

test('exhausted credits stop no agent that runs on the key of its org', async () => {
  const own = await createOrganization(parley, 'own-key');
  await parley.call('PUT', '/api/model_credentials/openai', { key: own.key, body: { api_key: 'sk-0123456789abcdef' } });
  await createAgent(parley, own.key, 'desk', { model: { provider: 'openai', name: 'gpt-5' } });
  await createAgent(parley, own.key, 'offline');
  await operate(parley, 'own-key', { credits_micros: 0 });
  assert.equal((await mint({}, own.key)).status, 200);
  assert.equal((await mint({}, own.key, 'offline')).body.reason, 'credits_exhausted');
});

test('a deleted agent ends its tokens; an over-budget org gets none', async () => {
  await createAgent(parley, acme.key, 'brief');
  const { body } = await mint({}, acme.key, 'brief');
  assert.ok(await parley.context.tokens.verify(body.token));
  await parley.call('DELETE', '/api/agents/brief', { key: acme.key });
  assert.equal(await parley.context.tokens.verify(body.token), undefined);
  const keyed = (key: string) =>
    parley.call('POST', '/api/agents/desk/session_tokens', { key: acme.key, body: {}, headers: { 'idempotency-key': key } });
  const first = await keyed('before');
  await operate(parley, 'acme', { total_tokens_cap: 0 });
  for (const refused of [await mint({}), await keyed('after')]) {
    assert.equal(refused.status, 402);
    assert.deepEqual(Object.keys(refused.body).sort(), ['error', 'message', 'reason']);
  }
  const again = await keyed('before');
  assert.deepEqual([again.status, again.body], [200, first.body], 'a repetition is answered as the first was');
});
