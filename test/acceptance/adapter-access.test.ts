// Who may call the two adapters, for whom, and what they are told when they may not.
// One engine: this is about who is let in, and what is allowed or refused.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { adapters, notFoundText, sessionCount, transcript, withToken } from '../support/adapter-wire.ts';
import { startApp } from '../support/app.ts';
import { createTenant, type Tenant } from '../support/tenants.ts';
import { until } from '../support/until.ts';
import { connect, type Wire } from '../support/wire.ts';

const app = await startApp({ after });
const url = await app.listen();

const malformedBodies: Record<string, unknown[]> = {
  'chat/completions': [
    { messages: 'hi' },
    { messages: ['hi'] },
    { messages: [{ content: 'hi' }] },
    { messages: [{ role: 'pirate', content: 'hi' }] },
    { messages: [{ role: 'user', content: 7 }] },
    { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:' } }] }] },
    { messages: [{ role: 'user', content: 'x'.repeat(200_001) }] },
    { messages: [], model: 7 },
    { messages: [], model: 'x'.repeat(257) },
    { messages: [], stream: 'yes' },
    { messages: [], metadata: 'x' },
    { messages: [], metadata: { end_user_id: 7 } },
    { messages: [], metadata: { session_id: 7 } },
    { messages: [], metadata: Object.fromEntries(Array.from({ length: 51 }, (_, index) => [`k${index}`, 1])) },
    '[]',
    '{"messages":',
    '{"messages":[{"role":"user","content":"\\u0000"}]}',
  ],
  responses: [
    {},
    { input: 7 },
    { input: '' },
    { input: [] },
    { input: ['hi'] },
    {
      input: [
        { role: 'pirate', content: 'hi' },
        { role: 'user', content: 'hi' },
      ],
    },
    { input: [{ role: 'assistant', content: 'hi' }] },
    { input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'data:' }] }] },
    { input: 'x'.repeat(200_001) },
    { input: 'hi', model: 7 },
    { input: 'hi', model: 'x'.repeat(257) },
    { input: 'hi', stream: 'yes' },
    { input: 'hi', store: 'no' },
    { input: 'hi', previous_response_id: 7 },
    { input: 'hi', conversation: 7 },
    { input: 'hi', metadata: 'x' },
    { input: 'hi', metadata: { end_user_id: '' } },
    '[]',
    '{"input":',
    '{"input":"\\ud800"}',
  ],
};

for (const { name, body } of adapters) {
  const pathOf = (tenant: Tenant) => `${tenant.agentPath}/v1/${name}`;

  test(`${name}: nobody is let in without a credential`, async () => {
    const tenant = await createTenant(url);
    for (const credential of ['', 'nonsense', `svc_live_${'x'.repeat(32)}`, 'a.b.c']) {
      const answer = await connect(url, credential).post(pathOf(tenant), body('hi'));
      assert.deepEqual(
        [answer.status, answer.text],
        [
          401,
          '{"detail":"Unauthorized","error":{"message":"Unauthorized","type":"authentication_error","code":"unauthorized","param":null}}',
        ],
      );
    }
  });

  test(`${name}: unknown agents, other orgs and agents without a release are one 404`, async () => {
    const tenant = await createTenant(url);
    const other = await createTenant(url);
    await tenant.post('/api/agents', { slug: 'bare' });
    for (const path of [`/${tenant.slug}/nobody`, other.agentPath, '/demo/assistant', `/${tenant.slug}/bare`]) {
      const answer = await tenant.post(`${path}/v1/${name}`, body('hi'));
      assert.deepEqual([answer.status, answer.text], [404, notFoundText], path);
    }
  });

  test(`${name}: a call of the wire that there is none of here is the same 404`, async () => {
    const tenant = await createTenant(url);
    for (const answer of [
      await tenant.get(`${pathOf(tenant)}/resp_1/input_items`),
      await tenant.post(`${pathOf(tenant)}/resp_1/cancel`, {}),
      await tenant.put(pathOf(tenant), {}),
    ])
      assert.deepEqual([answer.status, answer.text], [404, notFoundText]);
  });

  test(`${name}: a message may have 200,000 characters of any script; one more is 422`, async () => {
    const tenant = await createTenant(url);
    const text = (count: number) => `/say ok\n${'🙂'.repeat(count - 8)}`;
    assert.equal((await tenant.post(pathOf(tenant), body(text(200_000)))).status, 200);
    assert.equal((await tenant.post(pathOf(tenant), body(text(200_001)))).status, 422);
  });

  test(`${name}: a malformed body is 422 with both shapes of error, and nothing is written`, async () => {
    const tenant = await createTenant(url);
    for (const bad of malformedBodies[name] ?? assert.fail()) {
      const answer = await tenant.post(pathOf(tenant), bad);
      assert.equal(answer.status, 422, `${JSON.stringify(bad).slice(0, 200)}: ${answer.text.slice(0, 200)}`);
      const { message, type, code } = answer.body.error;
      assert.deepEqual([answer.body.detail, type, code], [message, 'invalid_request_error', 'invalid_request']);
    }
    const large = await tenant.post(pathOf(tenant), body('x'.repeat(1_048_576)));
    assert.deepEqual([large.status, large.body.error.type, large.body.error.code], [413, 'invalid_request_error', 'too_large']);
    assert.equal(await sessionCount(tenant), 0);
  });

  test(`${name}: what is wrong inside of an array is named by its place there`, async () => {
    const tenant = await createTenant(url);
    for (const [content, place, reason] of [
      [7, 'content', 'must be string or array or null'],
      [[{ text: 'hi' }], 'content.0.type', 'is required'],
      [[{ type: 'text', text: 7 }], 'content.0.text', 'must be string'],
    ]) {
      const items = [{ role: 'user', content }];
      const { error } = (await tenant.post(pathOf(tenant), body('', { messages: items, input: items }))).body;
      const param = `${name === 'responses' ? 'input' : 'messages'}.0.${place}`;
      assert.deepEqual([error.param, error.message], [param, `${param}: ${reason}`]);
    }
  });

  test(`${name}: an exhausted budget is 402 before the turn and before the release, and leaves no session`, async () => {
    const tenant = await createTenant(url);
    const session = await tenant.session();
    await tenant.post('/api/agents', { slug: 'bare' });
    await tenant.operate({ credits_micros: 0 });
    const text =
      '{"detail":{"error":"budget_exhausted","message":"The prepaid balance is exhausted.","reason":"credits_exhausted"},' +
      '"error":{"message":"The prepaid balance is exhausted.","type":"insufficient_quota","code":"budget_exhausted","param":null}}';
    for (const stream of [false, true]) {
      const answer = await tenant.post(pathOf(tenant), body('hi', { stream }));
      assert.deepEqual([answer.status, answer.text], [402, text]);
    }
    assert.equal((await tenant.post(`/${tenant.slug}/bare/v1/${name}`, body('hi'))).status, 402);
    const sticky = name === 'responses' ? body('hi', { conversation: session }) : body('hi', { metadata: { session_id: session } });
    assert.equal((await tenant.post(pathOf(tenant), sticky)).status, 402);
    assert.equal(await sessionCount(tenant), 1);
  });

  test(`${name}: an instance at its cap is 402 for its end user only`, async () => {
    const tenant = await createTenant(url, { instance: { scope: 'end_user' } });
    await tenant.post(pathOf(tenant), body('hi', { metadata: { end_user_id: 'ann' } }));
    await tenant.put('/api/budget', { instance_spend_cap_micros: 1 });
    const refused = await tenant.post(pathOf(tenant), body('hi', { metadata: { end_user_id: 'ann' } }));
    assert.deepEqual([refused.status, refused.body.detail.error], [402, 'instance_spend_cap_exceeded']);
    assert.equal((await tenant.post(pathOf(tenant), body('hi', { metadata: { end_user_id: 'bob' } }))).status, 200);
  });

  test(`${name}: a release that is not materialized is 409`, async () => {
    const tenant = await createTenant(url);
    await tenant.release({ mcp_servers: [{ name: 'crm', url: 'http://127.0.0.1:9/mcp' }] });
    await until(async () => (await tenant.get('/api/agents/helper/releases/2')).body.release.state === 'failed');
    const answer = await tenant.post(pathOf(tenant), body('hi'));
    assert.deepEqual(
      [answer.status, answer.text],
      [
        409,
        '{"detail":"Release 2 is not materialized.","error":{"message":"Release 2 is not materialized.","type":"conflict_error","code":"conflict","param":null}}',
      ],
    );
    assert.equal(await sessionCount(tenant), 0);
  });

  test(`${name}: a session token is let in for its own agent, and its subject is who acts`, async () => {
    const tenant = await createTenant(url);
    const ann = await withToken(tenant, { end_user_id: 'ann' });
    const answer = await ann.post(pathOf(tenant), body('hi', { metadata: { colour: 'red' } }));
    assert.equal(answer.status, 200, answer.text);
    const session = answer.headers.get('x-svc-session') ?? '';
    const listed = (await tenant.get(`${tenant.agentPath}/v1/sessions`)).body.sessions;
    assert.deepEqual([listed[0].id, listed[0].end_user_id], [session, 'ann']);
    await tenant.post('/api/agents', { slug: 'second' });
    await tenant.post('/api/agents/second/releases', { activate: true });
    const elsewhere = await ann.post(`/${tenant.slug}/second/v1/${name}`, body('hi'));
    assert.deepEqual([elsewhere.status, elsewhere.text], [404, notFoundText]);
  });

  test(`${name}: metadata that names another end user than the token is 403, before the body is looked at`, async () => {
    const tenant = await createTenant(url);
    const ann = await withToken(tenant, { end_user_id: 'ann' });
    for (const [key, more] of [
      ['end_user_id', {}],
      ['user_id', {}],
      ['end_user_id', { stream: 7 }],
    ] as const) {
      const answer = await ann.post(pathOf(tenant), body('hi', { metadata: { [key]: 'bob' }, ...more }));
      assert.deepEqual(
        [answer.status, answer.body.detail.error, answer.body.error.code, answer.body.error.type],
        [403, 'identity_mismatch', 'identity_mismatch', 'permission_error'],
      );
    }
    const both = body('hi', { conversation: 'ses_no', metadata: { session_id: 'ses_no', end_user_id: 'bob' } });
    assert.equal((await ann.post(pathOf(tenant), both)).text, notFoundText, 'but not before the session');
    assert.equal((await ann.post(pathOf(tenant), body('hi', { metadata: { end_user_id: 'ann' } }))).status, 200);
    assert.equal(await sessionCount(tenant), 1);
  });

  test(`${name}: a browser cannot name the durable instance`, async () => {
    const tenant = await createTenant(url);
    const ann = await withToken(tenant, { end_user_id: 'ann' });
    const answer = await ann.post(pathOf(tenant), body('hi', { metadata: { agent_instance_id: 'payroll' } }));
    const session = await tenant.get(`${tenant.agentPath}/v1/sessions/${answer.headers.get('x-svc-session')}`);
    assert.equal(session.body.metadata.agent_instance_id, undefined);
  });

  test(`${name}: one end user's session is not there for another`, async () => {
    const tenant = await createTenant(url);
    const ann = await withToken(tenant, { end_user_id: 'ann' });
    const bob = await withToken(tenant, { end_user_id: 'bob' });
    const first = await ann.post(pathOf(tenant), body('hi'));
    const session = first.headers.get('x-svc-session') ?? '';
    const goOn = (caller: Wire, more = {}) => {
      if (name === 'responses') return caller.post(pathOf(tenant), body('again', { ...more, previous_response_id: first.body.id }));
      return caller.post(pathOf(tenant), body('again', more), { 'x-svc-session': session });
    };
    const wrong = await goOn(ann, { stream: 7 });
    assert.deepEqual([wrong.status, wrong.headers.get('x-svc-session')], [422, session], 'an error of its own names it');
    const refused = await goOn(bob);
    assert.deepEqual([refused.status, refused.text], [404, notFoundText]);
    assert.equal((await goOn(ann)).status, 200);
    assert.equal((await transcript(tenant, session)).length, 4);
  });

  test(`${name}: a session that is not there is 404 before an Idempotency-Key that is none`, async () => {
    const tenant = await createTenant(url);
    const hidden = body('hi', { conversation: 'ses_no', metadata: { session_id: 'ses_no' } });
    for (const key of ['', 'x'.repeat(256)]) {
      const answer = await tenant.post(pathOf(tenant), hidden, { 'idempotency-key': key });
      assert.deepEqual([answer.status, answer.text], [404, notFoundText], key);
      assert.equal((await tenant.post(pathOf(tenant), body('hi'), { 'idempotency-key': key })).status, 422);
    }
  });

  test(`${name}: browsers of other origins may call it and read the session's id`, async () => {
    const tenant = await createTenant(url);
    const preflight = await fetch(url + pathOf(tenant), {
      method: 'OPTIONS',
      headers: { origin: 'https://shop.example', 'access-control-request-method': 'POST' },
    });
    assert.deepEqual([preflight.status, preflight.headers.get('access-control-allow-origin')], [204, '*']);
    const answer = await tenant.post(pathOf(tenant), body('hi'), { origin: 'https://shop.example' });
    assert.equal(preflight.headers.get('access-control-allow-methods'), 'GET, POST, DELETE');
    const exposed = 'x-request-id, retry-after, x-should-retry, x-svc-session, idempotent-replayed';
    assert.equal(answer.headers.get('access-control-expose-headers'), exposed);
  });
}

test('a session that a header names and that is not there is 404 before a body that cannot be read, also with an Idempotency-Key', async () => {
  const tenant = await createTenant(url);
  const known = await tenant.session();
  const ask = (session: string, body: string, headers: Record<string, string>) =>
    tenant.post(`${tenant.agentPath}/v1/chat/completions`, body, { 'x-svc-session': session, ...headers });
  for (const headers of [{}, { 'idempotency-key': 'k1' }, { 'idempotency-key': '' }, { 'x-stainless-retry-count': '1' }]) {
    for (const bad of ['{"messages":', '{"messages":[{"role":"user","content":"\\u0000"}]}', '']) {
      const answer = await ask('ses_no', bad, headers);
      assert.deepEqual([answer.status, answer.text], [404, notFoundText], `${JSON.stringify(headers)} ${bad}`);
      assert.equal((await ask(known, bad, headers)).status, 422);
    }
  }
});
