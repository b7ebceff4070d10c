// What goes on to participants at other gateways, and what does not.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import { startApp } from '../../support/app.ts';
import { message, ownUrl, startGateway } from '../../support/gateway.ts';
import { serveProvider } from '../../support/provider-server.ts';
import { until } from '../../support/until.ts';
import { startReceiver } from '../../support/webhook-receiver.ts';

const { parley, newOrganization, submit, deliver, logOf, sessionOf } = await startGateway({ after });

test('gateways on private addresses are refused unless the operator allows them', async (t) => {
  const strict = await startApp(t, { settings: { PARLEY_GATEWAY: '1' } });
  const body = message('hi', { sender_gateway_url: 'http://10.0.0.1' });
  const answer = await strict.call('POST', '/v1/gateway/events', { key: strict.apiKey, body });
  assert.deepEqual([answer.status, answer.body.detail.error], [422, 'destination_refused']);
  const forward = { recipient_id: 'bob', recipient_gateway_url: 'https://169.254.169.254', event: message('hi') };
  assert.equal((await strict.call('POST', '/v1/gateway/deliveries', { key: strict.apiKey, body: forward })).status, 422);
});

test('the message and the reply go to every participant at another gateway, but not to their own sender', async (t) => {
  const org = await newOrganization();
  const [west, east] = [await startReceiver(t), await startReceiver(t)];
  const { id } = (await parley.call('POST', '/v1/sessions', { key: org.key })).body;
  const from = (name: string, url: string, text: string) =>
    message(text, { sender_id: name, sender_type: 'ai', session_id: id, sender_gateway_url: new URL(url).origin });
  await submit(org, from('wes', west.url, '/say welcome, wes'));
  await west.until((received) => received.length === 1);
  await submit(org, from('eve', east.url, '/say welcome, eve'));
  await west.until((received) => received.length === 3);
  await east.until((received) => received.length === 1);
  await parley.context.courier.idle();
  const heard = (receiver: typeof west) =>
    receiver.received.map(({ body }) => [body.recipient_id, body.event.sender_id, body.event.message]);
  assert.deepEqual(heard(west), [
    ['wes', 'helper', 'welcome, wes'],
    ['wes', 'eve', '/say welcome, eve'],
    ['wes', 'helper', 'welcome, eve'],
  ]);
  assert.deepEqual(heard(east), [['eve', 'helper', 'welcome, eve']]);
  const [reply] = east.received;
  assert.equal(reply?.path, '/v1/gateway/deliveries');
  assert.deepEqual(reply?.body.event.hops, [ownUrl]);
  assert.deepEqual([reply?.body.event.sender_gateway_url, reply?.body.event.session_id], [ownUrl, id]);

  // Whoever is here is answered here, also when the agent has nothing to say; others where they are.
  await submit(org, message('/fail overloaded', { session_id: id }));
  await east.until((received) => received.length === 2);
  const reachedAt = (event: Record<string, unknown>) => [event.sender_id, event.sender_gateway_url, event.session_id];
  assert.deepEqual(reachedAt(east.received[1]?.body.event), ['ada', ownUrl, id]);
  assert.deepEqual(reachedAt(west.received[1]?.body.event), ['eve', new URL(east.url).origin, undefined]);
  const said: { type: string; participant_type?: string }[] = await logOf(org, id, 2);
  const senders = said.filter(({ type }) => type === 'user.message').map((entry) => entry.participant_type);
  assert.deepEqual(senders, ['ai', 'ai', 'human']);
});

test('an agent at another gateway that has the slug of the agent here is sent what that one says', async (t) => {
  const org = await newOrganization();
  const west = await startReceiver(t);
  const { id } = (await parley.call('POST', '/v1/sessions', { key: org.key })).body;
  const namesake = { sender_id: 'helper', sender_type: 'ai', event_type: 'joined', session_id: 'ses_west' };
  await deliver(org, { recipient_id: 'helper', session_id: id, event: { ...namesake, sender_gateway_url: new URL(west.url).origin } });
  await submit(org, message('/say two of a name', { session_id: id }));
  const heard = await west.until((received) => received.length === 2);
  assert.deepEqual(
    heard.map(({ body }) => [body.recipient_id, body.session_id, body.event.sender_id, body.event.message]),
    [
      ['helper', 'ses_west', 'ada', '/say two of a name'],
      ['helper', 'ses_west', 'helper', 'two of a name'],
    ],
  );
});

test('a sender who says that it is reached here is no longer sent what is said at the gateway where it was', async (t) => {
  const org = await newOrganization();
  const west = await startReceiver(t);
  const { id } = (await parley.call('POST', '/v1/sessions', { key: org.key })).body;
  const wes = { sender_id: 'wes', sender_type: 'human', event_type: 'joined', session_id: id };
  const bring = (url: string) =>
    deliver(org, { recipient_id: 'helper', session_id: id, event: { ...wes, session_id: 'ses_west', sender_gateway_url: url } });
  const origin = new URL(west.url).origin;
  const here = { name: 'wes', type: 'human' };
  for (const comesHome of [
    () => submit(org, { ...wes, sender_gateway_url: ownUrl }),
    () => bring(ownUrl),
    () => submit(org, message('/say welcome', { ...wes, event_type: 'message', sender_gateway_url: `${ownUrl}/` })),
  ]) {
    await bring(origin);
    assert.deepEqual((await sessionOf(org, id)).participants, [{ ...here, gateway_url: origin, gateway_session_id: 'ses_west' }]);
    assert.equal((await comesHome()).status, 200);
    assert.deepEqual((await sessionOf(org, id)).participants, [here]);
  }
  const owed = sql`select 1 from gateway_events where org_id = ${org.id} and state = 'admitted'`;
  await until(async () => (await owed.execute(parley.context.database.db)).rows.length === 0);
  await parley.context.courier.idle();
  assert.equal(west.received.length, 0);
});

test('what the agent says before and after it uses a tool is one reply, with a blank line in it', async (t) => {
  const chunk = (delta: object) => `data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`;
  const use = { index: 0, id: 'call_1', type: 'function', function: { name: 'files', arguments: '{"operation":"list"}' } };
  const provider = await serveProvider(
    { body: `${chunk({ content: 'Let me see.' })}${chunk({ tool_calls: [use] })}data: [DONE]\n\n` },
    { body: `${chunk({ content: 'There is nothing.' })}data: [DONE]\n\n` },
  );
  t.after(() => provider.close());
  const [org, west] = [await newOrganization(), await startReceiver(t)];
  const model = { provider: 'openai-compatible', name: 'm', base_url: provider.origin, settings: {} };
  await parley.call('POST', '/api/agents/helper/releases', { key: org.key, body: { model, activate: true } });
  await submit(org, message('Which files are there?', { sender_gateway_url: new URL(west.url).origin }));
  await west.until((received) => received.length === 1);
  assert.equal(west.received[0]?.body.event.message, 'Let me see.\n\nThere is nothing.');
});

test('another gateway hears one thing at a time, and a message before its reply', async (t) => {
  const org = await newOrganization();
  const west = await startReceiver(t);
  const open = { now: 0, most: 0 };
  west.answer = (_request, response) => {
    open.now += 1;
    open.most = Math.max(open.most, open.now);
    setTimeout(() => {
      open.now -= 1;
      response.end();
    }, 30);
  };
  const { id } = (await parley.call('POST', '/v1/sessions', { key: org.key })).body;
  const wes = { sender_id: 'wes', sender_type: 'ai', event_type: 'joined', sender_gateway_url: new URL(west.url).origin };
  const joined = { recipient_id: 'helper', session_id: id, event: { ...wes, session_id: 'ses_west' } };
  assert.equal((await deliver(org, joined)).status, 200);
  for (const text of ['one', 'two', 'three']) await submit(org, message(`/say ${text}!`, { session_id: id }));
  const heard = (await west.until((received) => received.length === 6)).map(({ body }) => body.event.message);
  for (const text of ['one', 'two', 'three']) assert.ok(heard.indexOf(`/say ${text}!`) < heard.indexOf(`${text}!`), heard.join());
  assert.equal(open.most, 1);
  for (const { body } of west.received) assert.equal(body.session_id, 'ses_west', 'where its recipient spoke from');

  const east = await startReceiver(t);
  const moved = { ...wes, event_type: 'message', session_id: id, sender_gateway_url: new URL(east.url).origin };
  await submit(org, message('/think hm\n/say so', { ...moved, id: 'evt_so' }));
  const [answer] = await east.until((received) => received.length === 1);
  assert.deepEqual([answer?.body.event.message, answer?.body.session_id], ['so', undefined], 'that session is not of this gateway');

  // As if its process had died when the message had its turn.
  await sql`update gateway_events set state = 'received', turn_id = null, created_at = now() - interval '11 seconds'
    where org_id = ${org.id} and event_id = 'evt_so'`.execute(parley.context.database.db);
  const [, again] = await east.until((received) => received.length === 2);
  assert.deepEqual(again?.body, answer?.body);

  await submit(org, message('/tool files {"operation":"write","path":"a","content":"b"}', moved));
  await until(async () => (await sessionOf(org, id)).pending_input !== null);
  assert.equal((await submit(org, message('/say at last', moved))).status, 200, 'what is said meanwhile waits');
  const { request_id: requestId } = (await sessionOf(org, id)).pending_input;
  await parley.call('PUT', `/v1/sessions/${id}/inputs/${requestId}`, { key: org.key, body: { decision: 'approve_once' } });
  const [, , late, last] = await east.until((received) => received.length === 4);
  assert.match(late?.body.event.message, /files/, 'a turn that waits for an approval answers when it has ended');
  assert.equal(last?.body.event.message, 'at last');
});

test('recipient_gateway_url sends the event on, once, with this gateway among its hops', async (t) => {
  const org = await newOrganization();
  const other = await startReceiver(t);
  const hops = ['https://first.example.com'];
  const body = {
    recipient_id: 'bob',
    recipient_gateway_url: new URL(other.url).origin,
    session_id: 'ses_there',
    event: message('pass it on', { id: 'f-1', hops }),
  };
  await deliver(org, body);
  await deliver(org, body);
  await other.until((received) => received.length === 1);
  await parley.context.courier.idle();
  assert.equal(other.received.length, 1);
  assert.deepEqual(other.received[0]?.body, {
    recipient_id: 'bob',
    event: { ...message('pass it on'), id: 'f-1', hops: [...hops, ownUrl] },
    session_id: 'ses_there',
  });
  await deliver(org, { ...body, recipient_id: 'eve' });
  const [, second] = await other.until((received) => received.length === 2);
  assert.equal(second?.body.recipient_id, 'eve', 'the same event, for another participant there');
  await deliver(org, { ...body, event: message('answer me') });
  const [, , third] = await other.until((received) => received.length === 3);
  const { hops: passed, sender_gateway_url: answeredAt } = third?.body.event ?? {};
  assert.deepEqual([passed, answeredAt], [[ownUrl], ownUrl], 'a sender who is here is answered here');
  const { id } = await parley.context.database.db
    .selectFrom('deliveries')
    .select('id')
    .where('org_id', '=', org.id)
    .executeTakeFirstOrThrow();
  for (const [method, path] of [
    ['GET', `/api/webhook_deliveries/${id}`],
    ['POST', `/api/webhook_deliveries/${id}/resend`],
  ] as const)
    assert.equal((await parley.call(method, path, { key: org.key })).status, 404, 'it is no webhook');
});

test('what already passed here, or passed eight gateways, goes no further', async (t) => {
  const org = await newOrganization();
  const other = await startReceiver(t);
  const { id } = (await parley.call('POST', '/v1/sessions', { key: org.key })).body;
  const looped = message('again', { hops: ['https://there.example.com', ownUrl], session_id: id });
  for (const sessionId of [id, 'of another\ngateway'])
    assert.equal((await submit(org, { ...looped, session_id: sessionId })).text, '{"status":"ok"}');
  assert.equal((await deliver(org, { recipient_id: 'helper', session_id: id, event: looped })).text, '{"status":"ok"}');
  const hops = Array.from({ length: 8 }, (_, index) => `https://g${index}.example.com`);
  const tired = message('far', { hops });
  const forward = { recipient_id: 'bob', recipient_gateway_url: new URL(other.url).origin, event: tired };
  assert.equal((await deliver(org, forward)).text, '{"status":"ok"}');
  await parley.context.courier.idle();
  assert.equal(other.received.length, 0);
  const session = await sessionOf(org, id);
  assert.deepEqual(session.participants, []);
  const joined = { sender_id: 'eve', sender_type: 'ai', event_type: 'joined', session_id: id };
  await submit(org, { ...joined, sender_gateway_url: new URL(other.url).origin });
  await submit(org, { ...tired, message: '/say near', session_id: id });
  await other.until((received) => received.length > 0);
  await parley.context.courier.idle();
  assert.deepEqual(
    other.received.map(({ body }) => body.event.message),
    ['near'],
    'the reply is an event of its own',
  );
  await submit(org, { ...tired, message: '/say nearer', session_id: id, hops: hops.slice(1) });
  const [, eighth] = await other.until((received) => received.length === 3);
  assert.deepEqual([eighth?.body.event.message, eighth?.body.event.hops.length], ['/say nearer', 8]);
});

test('the URL of a gateway is refused where it is too long once encoded, and any other is taken with any recipient', async (t) => {
  const org = await newOrganization();
  const other = await startReceiver(t);
  const { origin } = new URL(other.url);
  const letters = (first: number, count: number) =>
    Array.from(randomBytes(2 * count).subarray(0, count), (byte) => String.fromCodePoint(first + 64 * byte)).join('');
  const long = `${origin}/${letters(0x4e00, 1_500)}`;
  const [sent, forwarded] = [
    await submit(org, message('/say hi', { sender_gateway_url: long })),
    await deliver(org, { recipient_id: 'bob', recipient_gateway_url: long, event: message('hi') }),
  ];
  assert.deepEqual(
    [sent, forwarded].map(({ status, body }) => [status, body.detail]),
    [
      [422, 'sender_gateway_url: at most 2048 characters once encoded'],
      [422, 'recipient_gateway_url: at most 2048 characters once encoded'],
    ],
  );
  const path = randomBytes(1_500).toString('base64url');
  const recipient = letters(0x20000, 256);
  const event = message('hi', { id: letters(0x20000, 200) });
  const answer = await deliver(org, { recipient_id: recipient, recipient_gateway_url: `${origin}/${path}`, event });
  assert.deepEqual([answer.status, answer.text], [200, '{"status":"ok"}']);
  const [received] = await other.until((all) => all.length === 1);
  assert.deepEqual([received?.path, received?.body.recipient_id], [`/${path}/v1/gateway/deliveries`, recipient]);
});

test('replies that cannot be written hold up no other organization’s, however many they are', async (t) => {
  const [unlucky, org] = [await newOrganization(), await newOrganization()];
  const other = await startReceiver(t);
  const stuck = String((await submit(unlucky, message('/delay 100\n/words 3'))).headers['x-svc-session']);
  const nobody = { name: 'eve', type: 'ai', gateway_url: `https://there.example.com/${randomBytes(4_000).toString('base64url')}` };
  const { db } = parley.context.database;
  await db
    .updateTable('sessions')
    .set({ participants: JSON.stringify([nobody]) })
    .where('id', '=', stuck)
    .execute();
  await logOf(unlucky, stuck, 1);
  await sql`insert into gateway_events (org_id, event_id, target, state, session_id, turn_id, event, created_at)
    select org_id, event_id || n, target, 'admitted', session_id, turn_id, event, created_at
    from gateway_events, generate_series(1, 120) n where session_id = ${stuck}`.execute(db);
  await submit(org, message('/say welcome', { sender_gateway_url: new URL(other.url).origin }));
  const [reply] = await other.until((received) => received.length === 1);
  assert.equal(reply?.body.event.message, 'welcome');
  await db.updateTable('sessions').set({ participants: '[]' }).where('id', '=', stuck).execute();
});
