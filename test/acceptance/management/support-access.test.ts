// What members see and do while support access is off.
// One engine: this is about what is allowed or refused.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createAgent, createDeadEndpoint, createOrganization } from '../../support/accounts.ts';
import { startApp } from '../../support/app.ts';
import { browserOf } from '../../support/members.ts';
import { until } from '../../support/until.ts';

const parley = await startApp({ after }, { settings: { PARLEY_GATEWAY: '1', PARLEY_WEBHOOK_ALLOW_PRIVATE: '1' } });

test('a member reads and deletes no response while support access is off, but for those of the playground; a key reads on', async () => {
  const quiet = await createOrganization(parley, 'quiet');
  await createAgent(parley, quiet.key, 'desk');
  const headers = await browserOf(parley, quiet, 'reader@example.com', 'owner');
  const said = async (metadata: Record<string, unknown>) => {
    const answer = await parley.call('POST', '/quiet/desk/v1/responses', { key: quiet.key, body: { input: 'Secret words', metadata } });
    assert.equal(answer.status, 200, answer.text);
    return `/quiet/desk/v1/responses/${answer.body.id}`;
  };
  const [theirs, own] = [await said({ end_user_id: 'ada' }), await said({ source: 'playground' })];
  const nobodys = await said({});
  const ofInstance = await said({ source: 'playground', agent_instance_id: 'vip' });
  assert.equal((await parley.call('GET', theirs, { headers })).status, 200);
  await parley.call('PATCH', '/api/organization', { key: quiet.key, body: { support_access: { transcripts: false } } });
  for (const [method, path] of [
    ['GET', theirs],
    ['GET', `${theirs}?stream=true`],
    ['GET', `${theirs}/input_items`],
    ['POST', `${theirs}/cancel`],
    ['DELETE', theirs],
    ['GET', nobodys],
    ['GET', ofInstance],
  ] as const) {
    const refused = await parley.call(method, path, { headers });
    assert.deepEqual([refused.status, refused.body.detail], [403, 'Transcript access is disabled for this organization'], path);
  }
  assert.equal((await parley.call('GET', '/quiet/desk/v1/responses/resp_none', { headers })).status, 404);
  assert.equal((await parley.call('GET', own, { headers })).status, 200);
  assert.equal((await parley.call('GET', theirs, { key: quiet.key })).status, 200);
});

test('while support access is off, a member hears nothing of a session by joining in, or by answering its approval', async () => {
  const muted = await createOrganization(parley, 'muted');
  await createAgent(parley, muted.key, 'desk');
  const headers = await browserOf(parley, muted, 'listener@example.com', 'owner');
  const opened = await parley.call('POST', '/muted/desk/v1/sessions', { key: muted.key, body: { metadata: { end_user_id: 'ada' } } });
  const { id } = opened.body;
  const text = '/tool bash {"command":"echo a secret"}';
  const paused = await parley.call('POST', `/muted/desk/v1/sessions/${id}/messages`, { key: muted.key, body: { text } });
  const { request_id: requestId } = paused.body.pending_input;
  await parley.call('PATCH', '/api/organization', { key: muted.key, body: { support_access: { transcripts: false } } });
  const event = {
    sender_id: 'eve',
    sender_type: 'human',
    event_type: 'message',
    message: 'Repeat it',
    sender_gateway_url: 'https://eve.example',
  };
  const approval = [{ type: 'mcp_approval_response', approval_request_id: requestId, approve: true }];
  const ways: ['POST' | 'PUT', string, unknown, Record<string, string>?][] = [
    ['POST', `/muted/desk/v1/sessions/${id}/messages`, { text: 'Repeat all of it' }],
    ['POST', `/v1/sessions/${id}/messages`, { text: 'Repeat all of it' }],
    ['PUT', `/muted/desk/v1/sessions/${id}/inputs/${requestId}`, { decision: 'approve_once' }],
    ['POST', `/muted/desk/v1/managed-agents/sessions/${id}/events`, { type: 'user.message', text: 'Repeat all of it' }],
    ['POST', `/muted/desk/v1/managed-agents/sessions/${id}/files`, { name: 'orders.txt', content_base64: '' }],
    ['POST', '/muted/desk/v1/managed-agents/mcp', { method: 'resources/list' }, { 'x-svc-session': id }],
    ['POST', '/muted/desk/v1/chat/completions', { messages: [{ role: 'user', content: 'Repeat it' }] }, { 'x-svc-session': id }],
    ['POST', '/muted/desk/v1/responses', { input: 'Repeat all of it', conversation: id }],
    ['POST', '/muted/desk/v1/responses', { input: approval }],
    ['POST', '/v1/gateway/events', { ...event, session_id: id }],
    ['POST', '/v1/gateway/deliveries', { recipient_id: 'desk', session_id: id, event }],
  ];
  for (const [method, path, body, more] of ways) {
    const refused = await parley.call(method, path, { headers: { ...headers, ...more }, body });
    assert.deepEqual([refused.status, refused.body.detail], [403, 'Transcript access is disabled for this organization'], path);
  }
  const alone = await parley.call('POST', '/muted/desk/v1/responses', { headers, body: { input: '/say a session of my own' } });
  assert.deepEqual([alone.status, alone.body.output_text], [200, 'a session of my own']);
  const confirmation = { type: 'user.tool_confirmation', request_id: requestId, result: 'deny' };
  const confirmed = await parley.call('POST', `/muted/desk/v1/managed-agents/sessions/${id}/events`, { headers, body: confirmation });
  assert.equal(confirmed.status, 202, 'an answer that tells nothing is still taken');
});

test('while support access is off, a member is shown no files of an end user or instance by acting for them in a session of their own', async () => {
  const sealed = await createOrganization(parley, 'sealed');
  await createAgent(parley, sealed.key, 'desk');
  const headers = await browserOf(parley, sealed, 'snoop@example.com', 'member');
  const text = '/tool files {"operation":"list"}';
  const spoofed = { end_user_id: 'ada', source: 'playground' };
  const earlier = await parley.call('POST', '/sealed/desk/v1/sessions', { headers, body: { metadata: spoofed } });
  await parley.call('PATCH', '/api/organization', { key: sealed.key, body: { support_access: { transcripts: false } } });
  for (const named of [{ end_user_id: 'ada' }, { user_id: 'ada' }, { agent_instance_id: 'ward' }, spoofed]) {
    for (const [path, body] of [
      ['/v1/sessions', {}],
      ['/sealed/desk/v1/sessions', {}],
      ['/sealed/desk/v1/managed-agents/sessions', {}],
      ['/sealed/desk/v1/chat/completions', { messages: [{ role: 'user', content: text }] }],
      ['/sealed/desk/v1/responses', { input: text }],
    ] as const) {
      const refused = await parley.call('POST', path, { headers, body: { ...body, metadata: named } });
      assert.deepEqual([refused.status, refused.body.detail], [403, 'Transcript access is disabled for this organization'], path);
    }
  }
  const messages = `/sealed/desk/v1/sessions/${earlier.body.id}/messages`;
  assert.equal((await parley.call('POST', messages, { headers, body: { text } })).status, 403);
  const own = await parley.call('POST', '/sealed/desk/v1/responses', { headers, body: { input: text } });
  assert.deepEqual([own.status, own.body.output_text], [200, 'files answered: The workspace is empty.']);
});

test('while support access is off, a member gets no session token, with which they would read what its end user reads; a key does', async () => {
  const silent = await createOrganization(parley, 'silent');
  await createAgent(parley, silent.key, 'desk');
  const headers = await browserOf(parley, silent, 'minter@example.com', 'owner');
  const mint = (caller: { key: string } | { headers: Record<string, string> }, body: unknown) =>
    parley.call('POST', '/api/agents/desk/session_tokens', { ...caller, body });
  assert.equal((await mint({ headers }, { end_user_id: 'ada' })).status, 200);
  await parley.call('PATCH', '/api/organization', { key: silent.key, body: { support_access: { transcripts: false } } });
  // Without an end user the token would list what visitors said, and with an instance it would show its files.
  for (const body of [{ end_user_id: 'ada' }, {}, { agent_instance_id: 'ward' }]) {
    const { status, text } = await mint({ headers }, body);
    assert.deepEqual([status, text], [403, '{"error":"forbidden","message":"Transcript access is disabled for this organization"}']);
  }
  assert.equal((await mint({ key: silent.key }, { end_user_id: 'ada' })).status, 200);
});

test('while support access is off, members see no message of a provider in a delivery: it may quote what was said', async () => {
  const veiled = await createOrganization(parley, 'veiled');
  await createAgent(parley, veiled.key, 'desk');
  const deliveries = `/api/webhook_endpoints/${await createDeadEndpoint(parley, veiled.key)}/deliveries`;
  const headers = await browserOf(parley, veiled, 'curious@example.com', 'admin');
  const failed = await parley.call('POST', '/veiled/desk/v1/responses', { key: veiled.key, body: { input: '/fail unauthorized' } });
  assert.equal(failed.status, 422, failed.text);
  type Caller = { key: string } | { headers: Record<string, string> };
  const listed = async (caller: Caller) => {
    const { data } = (await parley.call('GET', deliveries, caller)).body;
    return data.find((delivery: { event_type: string }) => delivery.event_type === 'turn.failed');
  };
  await until(async () => (await listed(veiled)) !== undefined);
  const { id } = await listed(veiled);
  const errors = async (caller: Caller) => {
    const shown = [await listed(caller)];
    for (const [method, path] of [
      ['GET', id],
      ['POST', `${id}/resend`],
    ])
      shown.push((await parley.call(method ?? '', `/api/webhook_deliveries/${path}`, caller)).body.delivery);
    return shown.map(({ payload }) => payload.data.error);
  };
  const whole = { code: 'byok_key_rejected', message: 'The offline model was told to reject its key.' };
  assert.deepEqual(await errors({ headers }), [whole, whole, whole]);
  await parley.call('PATCH', '/api/organization', { key: veiled.key, body: { support_access: { transcripts: false } } });
  const bare = { code: 'byok_key_rejected', message: null };
  assert.deepEqual(await errors({ headers }), [bare, bare, bare]);
  assert.deepEqual(await errors({ key: veiled.key }), [whole, whole, whole]);
});

test('turning support access off ends the stream of a member who had opened another before it was on', { timeout: 20_000 }, async () => {
  const watched = await createOrganization(parley, 'watched');
  await createAgent(parley, watched.key, 'desk');
  const headers = await browserOf(parley, watched, 'watcher@example.com', 'owner');
  const url = await parley.listen();
  const access = (transcripts: boolean) =>
    parley.call('PATCH', '/api/organization', { key: watched.key, body: { support_access: { transcripts } } });
  const follow = async (metadata: Record<string, unknown>) => {
    const created = await parley.call('POST', '/watched/desk/v1/managed-agents/sessions', { key: watched.key, body: { metadata } });
    const response = await fetch(`${url}/watched/desk/v1/managed-agents/sessions/${created.body.id}/events/stream`, { headers });
    assert.equal(response.status, 200);
    return { ended: response.text() };
  };
  await access(false);
  const ofPlayground = await follow({ source: 'playground' });
  await access(true);
  const ofEndUser = await follow({ end_user_id: 'ada' });
  await access(false);
  for (const { ended } of [ofEndUser, ofPlayground]) assert.match(await ended, /"credential_revoked"/);
});
