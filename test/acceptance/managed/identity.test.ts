import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startApp } from '../../support/app.ts';
import { collect, ManagedClient, mintToken } from '../../support/managed.ts';

const app = await startApp({ after }, { settings: { PARLEY_CORS_ORIGINS: 'https://app.example, https://shop.example, null' } });
const client = new ManagedClient(app);
const alice = client.as(await mintToken(app, { end_user_id: 'alice' }));
const bob = client.as(await mintToken(app, { end_user_id: 'bob' }));
const visitor = client.as(await mintToken(app));
const origin = 'https://app.example';

const idsOf = (text: string): string[] => JSON.parse(text).data.map((session: { id: string }) => session.id);

test('a session token works on the managed routes and on no key-only route', async () => {
  const id = await alice.create();
  await alice.say(id, '/say hi');
  assert.equal((await alice.untilIdle(id)).length, 4);
  const authorization = { authorization: `Bearer ${alice.credential}` };
  for (const [method, path] of [
    ['POST', '/v1/sessions'],
    ['GET', `/v1/sessions/${id}`],
    ['POST', '/demo/assistant/v1/sessions'],
    ['GET', '/demo/assistant/v1/sessions'],
    ['GET', `/demo/assistant/v1/sessions/${id}`],
    ['GET', `/demo/assistant/v1/sessions/${id}/messages`],
    ['DELETE', `/demo/assistant/v1/sessions/${id}`],
    ['GET', '/api/agents'],
    ['POST', '/api/agents/assistant/session_tokens'],
  ] as const) {
    const answer = await app.request(method, path, method === 'POST' ? {} : undefined, authorization);
    assert.equal(answer.status, 401, `${method} ${path}: ${answer.text}`);
  }
});

test('the sub of a token is authoritative, and metadata that conflicts with it is 403 before the rest of the body is looked at', async () => {
  for (const metadata of [{ end_user_id: 'bob' }, { user_id: 'bob' }, { end_user_id: 'alice', user_id: 'bob' }]) {
    const answer = await alice.request('POST', '/sessions', { metadata, prewarm: 'not even a boolean' });
    assert.equal(answer.status, 403, answer.text);
    assert.equal(answer.body.detail.error, 'identity_mismatch');
  }
  const id = await alice.create({ metadata: { end_user_id: 'alice' } });
  assert.ok(idsOf((await alice.request('GET', '/sessions')).text).includes(id));
  assert.ok(idsOf((await alice.request('GET', '/sessions?end_user=bob')).text).includes(id), 'a verified token lists by its sub');
  const unnamed = await alice.create();
  const native = await app.request('GET', '/demo/assistant/v1/sessions');
  const listed = JSON.parse(native.text).sessions.find((session: { id: string }) => session.id === unnamed);
  assert.equal(listed.end_user_id, 'alice');
});

test('an end user has up to 256 characters of any script, in a token and in metadata', async () => {
  const name = '😀'.repeat(256);
  const smiling = client.as(await mintToken(app, { end_user_id: name }));
  const id = await smiling.create({ metadata: { end_user_id: name } });
  assert.deepEqual(idsOf((await smiling.request('GET', '/sessions')).text), [id]);
  const longer = await client.request('POST', '/sessions', { metadata: { end_user_id: `${name}!` } });
  assert.equal(longer.status, 400, longer.text);
  assert.equal((await client.request('GET', `/sessions?end_user=${'x'.repeat(257)}`)).status, 400);
});

test('end users never see each other', async () => {
  const hers = await alice.create();
  await alice.say(hers, '/say for alice only');
  await alice.untilIdle(hers);
  for (const other of [bob, visitor]) {
    for (const path of ['', '/transcript', '/transcript?end_user=alice', '/events/stream', '/warm']) {
      assert.equal((await other.request('GET', `/sessions/${hers}${path}`)).text, '{"detail":"Not Found"}', path);
    }
    for (const [path, body] of [
      ['events', { type: 'user.message', text: 'hi' }],
      ['events', { type: 'user.interrupt' }],
      ['files', { name: 'a', content_base64: '' }],
      ['prewarm', undefined],
    ] as const) {
      assert.equal((await other.request('POST', `/sessions/${hers}/${path}`, body)).status, 404);
    }
    assert.equal((await other.request('POST', '/mcp', { method: 'tools/list' }, { 'x-svc-session': hers })).status, 404);
  }
  assert.ok(!idsOf((await bob.request('GET', '/sessions')).text).includes(hers));
  assert.ok(!idsOf((await visitor.request('GET', '/sessions?end_user=alice')).text).includes(hers));
  assert.equal((await client.request('GET', `/sessions/${hers}/transcript`)).status, 200, 'the backend does');
});

test('an anonymous caller lists with end_user and reopens a transcript with it and the session id', async () => {
  const id = await visitor.create({ metadata: { end_user_id: 'visitor-7f3a' } });
  await visitor.say(id, '/say welcome back');
  await visitor.untilIdle(id);
  assert.equal((await visitor.request('GET', '/sessions')).status, 400);
  const again = client.as(await mintToken(app));
  assert.deepEqual(idsOf((await again.request('GET', '/sessions?end_user=visitor-7f3a')).text), [id]);
  assert.deepEqual(idsOf((await again.request('GET', '/sessions?end_user=visitor-else')).text), []);
  const transcript = await again.request('GET', `/sessions/${id}/transcript?end_user=visitor-7f3a`);
  assert.equal(transcript.body.session_id, id);
  for (const query of ['', '?end_user=visitor-else']) {
    assert.equal((await again.request('GET', `/sessions/${id}/transcript${query}`)).text, '{"detail":"Not Found"}');
  }
  assert.deepEqual(idsOf((await client.request('GET', '/sessions?end_user=visitor-7f3a')).text), [id]);
});

test('a visitor who takes the id of a verified end user is not that end user', async () => {
  const theirs = await visitor.create({ metadata: { end_user_id: 'alice' } });
  assert.ok(!idsOf((await alice.request('GET', '/sessions')).text).includes(theirs));
  assert.equal((await alice.request('GET', `/sessions/${theirs}`)).status, 404);
});

test("a visitor's next token gets the first answer again under an Idempotency-Key, and no other visitor does", async () => {
  const renewed = client.as(await mintToken(app));
  const id = await visitor.create();
  const said = { type: 'user.message', text: '/say once' };
  for (const [caller, replayed] of [
    [visitor, undefined],
    [renewed, 'true'],
  ] as const) {
    const answer = await caller.request('POST', `/sessions/${id}/events`, said, { 'idempotency-key': `of ${id}` });
    assert.deepEqual([answer.status, answer.headers['idempotent-replayed']], [202, replayed]);
  }
  await visitor.untilIdle(id);
  const words = { messages: [{ role: 'user', content: '/say once more' }] };
  for (const [caller, replayed] of [
    [visitor, undefined],
    [renewed, 'true'],
  ] as const) {
    const headers = { authorization: `Bearer ${caller.credential}`, 'x-svc-session': id, 'idempotency-key': `more of ${id}` };
    const answer = await app.request('POST', '/demo/assistant/v1/chat/completions', words, headers);
    assert.deepEqual([answer.status, answer.headers['idempotent-replayed']], [200, replayed], 'also where a header names the session');
  }
  const opened = (caller: ManagedClient) => caller.request('POST', '/sessions', {}, { 'idempotency-key': `new ${id}` });
  const [first, again, other] = [await opened(visitor), await opened(visitor), await opened(renewed)];
  assert.deepEqual([again.body.id, again.headers['idempotent-replayed']], [first.body.id, 'true']);
  assert.deepEqual([other.status, other.headers['idempotent-replayed']], [201, undefined]);
  assert.notEqual(other.body.id, first.body.id);
});

test("an Idempotency-Key of one end user gets in the way of nobody else's, and does not show which are in use", async () => {
  const callers = [client, alice, bob, visitor, client.as(await mintToken(app))];
  const open = (caller: ManagedClient) => caller.request('POST', '/sessions', {}, { 'idempotency-key': 'order-17' });
  const opened = await Promise.all(callers.map(open));
  assert.deepEqual(
    opened.map(({ status }) => status),
    [201, 201, 201, 201, 201],
  );
  assert.equal(new Set(opened.map(({ body }) => body.id)).size, 5);
  const say = (caller: ManagedClient, id: string, text: string) =>
    caller.request('POST', `/sessions/${id}/events`, { type: 'user.message', text }, { 'idempotency-key': 'message-1' });
  for (const [index, caller] of callers.entries()) {
    const id: string = opened[index]?.body.id ?? '';
    assert.deepEqual([(await say(caller, id, '/say one')).status, (await say(caller, id, '/say two')).status], [202, 422]);
    await caller.untilIdle(id);
    assert.equal((await open(caller)).body.id, id);
  }
});

test('agent_instance_id counts from a key or a token, and is ignored from a browser', async () => {
  const instanceOf = async (sessionId: string) =>
    (await app.context.database.db.selectFrom('sessions').select('instance_key').where('id', '=', sessionId).executeTakeFirstOrThrow())
      .instance_key;
  const metadata = { agent_instance_id: 'employee-7' };
  assert.equal(await instanceOf(await client.create({ metadata })), 'instance:employee-7');
  assert.equal(await instanceOf(await alice.create({ metadata })), 'end_user:alice');
  const minted = client.as(await mintToken(app, { end_user_id: 'alice', agent_instance_id: 'employee-7' }));
  assert.equal(await instanceOf(await minted.create({ metadata: { agent_instance_id: 'employee-8' } })), 'instance:employee-7');
  const told = client.as(await mintToken(app, { end_user_id: 'alice', metadata }));
  assert.equal(await instanceOf(await told.create({ metadata: { agent_instance_id: 'employee-8' } })), 'instance:employee-7');
  const mode = await alice.create({ permission_mode: 'autonomous' });
  await alice.say(mode, '/tool bash {"command":"echo hi"}');
  assert.equal((await alice.untilIdle(mode)).at(-1)?.stop_reason, 'requires_action', 'nor can a browser lift its own permissions');
  await alice.post(mode, { type: 'user.interrupt' });
});

test('what a backend minted into a token is in the sessions it opens', async () => {
  const minted = client.as(await mintToken(app, { end_user_id: 'carol', metadata: { plan: 'pro' } }));
  const id = await minted.create({ metadata: { plan: 'free', page: '/pricing' } });
  const session = await app.request('GET', `/demo/assistant/v1/sessions/${id}`);
  assert.deepEqual(session.body.metadata, { plan: 'pro', page: '/pricing' });
  const fifty = Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`key${index}`, index]));
  const answer = await minted.request('POST', '/sessions', { metadata: fifty });
  assert.equal(answer.status, 400, 'with the one of the token they are 51');
});

test('a token of another agent is 404, an altered or foreign one 401', async () => {
  assert.equal((await app.request('POST', '/api/agents', { slug: 'second' })).status, 201);
  assert.equal((await app.request('POST', '/api/agents/second/releases', { activate: true })).status, 201);
  const second = await mintToken(app, { end_user_id: 'alice' }, 'second');
  assert.equal((await client.as(second).request('POST', '/sessions', {})).text, '{"detail":"Not Found"}');
  const [header = '', payload = '', signature = ''] = alice.credential.split('.');
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString());
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
  for (const token of [
    `${header}.${encode({ ...claims, sub: 'bob' })}.${signature}`,
    `${encode({ alg: 'none' })}.${payload}.`,
    `${encode({ alg: 'none' })}.${payload}.${signature}`,
    `${encode({ alg: 'HS256', kid: JSON.parse(Buffer.from(header, 'base64url').toString()).kid })}.${payload}.${signature}`,
    alice.credential.slice(0, -4),
  ]) {
    assert.equal((await client.as(token).request('GET', '/sessions')).status, 401, token.slice(0, 60));
  }
});

test('browsers of a configured origin may call the managed routes', async () => {
  const preflight = await client.request('OPTIONS', '/sessions', undefined, {
    origin,
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'authorization,content-type',
    authorization: '',
  });
  assert.equal(preflight.status, 204);
  assert.equal(preflight.headers['access-control-allow-origin'], origin);
  assert.match(String(preflight.headers['access-control-allow-methods']), /POST/);
  assert.equal(preflight.headers['access-control-allow-headers'], 'authorization,content-type');
  assert.equal(preflight.headers['access-control-allow-credentials'], undefined);
  const created = await alice.request('POST', '/sessions', {}, { origin });
  assert.equal(created.headers['access-control-allow-origin'], origin);
  const local = await alice.request('GET', '/sessions', undefined, { origin: 'null' });
  assert.equal(local.headers['access-control-allow-origin'], 'null', 'as a page from a file has it');
  const refused = await client.request('GET', '/sessions', undefined, { origin, authorization: 'Bearer nothing' });
  assert.equal(refused.status, 401);
  assert.equal(refused.headers['access-control-allow-origin'], origin, 'so that the page can read why');
  const id = String(created.body.id);
  await alice.say(id, '/say streamed');
  const stream = await alice.follow(id, '?until=idle', { origin });
  assert.equal(stream.response.headers.get('access-control-allow-origin'), origin);
  await collect(stream);
});

test('no other origin, and no key-only route, gets CORS headers', async () => {
  const other = await alice.request('GET', '/sessions', undefined, { origin: 'https://evil.example' });
  assert.equal(other.headers['access-control-allow-origin'], undefined);
  for (const path of ['/v1/sessions', '/demo/assistant/v1/sessions', '/api/agents', '/operator/organizations', '/healthz']) {
    const answer = await app.request('GET', path, undefined, { origin });
    assert.equal(answer.headers['access-control-allow-origin'], undefined, path);
    const preflight = await app.request('OPTIONS', path, undefined, { origin, 'access-control-request-method': 'POST' });
    assert.equal(preflight.headers['access-control-allow-origin'], undefined, path);
    assert.equal(preflight.status, 404, path);
  }
});
